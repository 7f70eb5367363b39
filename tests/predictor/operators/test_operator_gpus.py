"""GPUs come from their data sheets; what is not known of one is left unknown, never absurd."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from berth.pilot.errors import UsageError
from berth.predictor.hardware import platforms
from berth.predictor.hardware.gpus import find, gpus, of_platform
from berth.predictor.hardware.roofs import Numbers, roofs

SHIPPED = platforms.shipped()


def test_every_gpu_has_a_name_of_its_own_and_sane_sheets() -> None:
    for name, gpu in gpus().items():
        assert gpu.name == name
        assert 20 <= gpu.multiprocessors <= 200
        assert 1e11 < gpu.bytes_per_s < 1e13
        assert gpu.peak(Numbers.FP16) >= gpu.peak(Numbers.FP32) >= gpu.vector_flops


def test_a_gpu_is_found_by_a_data_sets_name_and_a_platforms() -> None:
    assert find("NVIDIA L4") is find("NVIDIA_L4") is find("l4-24gb")
    assert find("lassen-v100").name == "v100-sxm2-16gb"


def test_an_unknown_gpu_is_named_with_its_nearest() -> None:
    with pytest.raises(UsageError, match="no GPU is called 'l4-23gb'") as raised:
        find("l4-23gb")
    assert "l4-24gb" in (raised.value.hint or "")


@pytest.mark.parametrize("field", ["multiprocessors", "bytes_per_s", "l2_bytes", "vector_flops"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_sheet_without_a_rate_is_refused(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=field):
        replace(find("l4-24gb"), **{field: value})


def test_a_sheet_without_fp32_is_refused() -> None:
    with pytest.raises(UsageError, match="fp32"):
        replace(find("l4-24gb"), matrix_flops={Numbers.FP16: 1e14})


@pytest.mark.parametrize("name", [n for n, p in SHIPPED.items() if p.is_gpu])
def test_no_narrower_numbers_are_computed_slower_than_where_the_roofline_has_them(
    name: str,
) -> None:
    gpu, roof = of_platform(SHIPPED[name], SHIPPED), roofs(SHIPPED)[name]
    assert gpu is not None
    assert gpu.peak(Numbers.FP8) >= gpu.peak(Numbers.FP16) >= gpu.peak(Numbers.FP32)
    for numbers in roof.native - {Numbers.FP32} if not gpu.amd else ():
        assert gpu.peak(numbers) == pytest.approx(roof.matrix_flops[numbers], rel=0.05)


def test_a_gpu_of_its_platform_file_alone_has_the_precisions_of_its_accelerator() -> None:
    platform = SHIPPED["h100-80gb"].model_copy(
        update={"name": "ours", "accelerator": "h100-sxm-80gb"}
    )
    known = {"ours": platform}
    ours, listed = of_platform(platform, known), of_platform(SHIPPED["h100-80gb"], SHIPPED)
    assert ours is not None
    assert listed is not None
    for numbers in Numbers:
        assert ours.peak(numbers) == pytest.approx(listed.peak(numbers), rel=0.02)


def test_every_shipped_gpu_platform_is_one() -> None:
    for platform in SHIPPED.values():
        assert (of_platform(platform, SHIPPED) is not None) is platform.is_gpu


def test_a_slice_is_its_share_of_the_gpu() -> None:
    whole = of_platform(SHIPPED["a100-40gb"], SHIPPED)
    part = of_platform(SHIPPED["a100-mig-1g.5gb"], SHIPPED)
    assert whole is not None
    assert part is not None
    assert part.multiprocessors == SHIPPED["a100-mig-1g.5gb"].cores
    share = part.multiprocessors / whole.multiprocessors
    assert part.vector_flops == pytest.approx(whole.vector_flops * share)
    assert part.bytes_per_s < whole.bytes_per_s
    assert part.memory_bytes < whole.memory_bytes


def test_a_sites_gpu_without_an_accelerator_has_unknown_power_law_and_fp32_alone() -> None:
    own = SHIPPED["a100-40gb"].model_copy(update={"name": "our-gpu", "power_w": None})
    found = of_platform(own, {**SHIPPED, "our-gpu": own})
    assert found is not None
    assert found.process_nm is None
    assert found.power_w is None
    assert found.peak(Numbers.FP16) == found.peak(Numbers.FP32) == own.signature.flops_f32_per_s
