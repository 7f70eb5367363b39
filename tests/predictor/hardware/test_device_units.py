"""A unit has its data sheet's figures; what is not known of it is left unknown, never absurd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berth.pilot.documents import parse_json, read_json, to_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Peaks, Platform, Precision
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import roof_of, roofs
from berth.predictor.hardware.unit import get_unit, known_unit, unit_named, unit_of, units

SHIPPED = platforms.shipped()


def test_every_unit_of_the_catalogue_is_sane() -> None:
    for name, unit in units({}).items():
        assert unit.name == unit.sheet.name == name
        assert 1e11 < unit.bytes_per_s < 1e13
        assert unit.peak(Numbers.FP16) >= unit.peak(Numbers.FP32) >= unit.vector_flops
        assert unit.peak(Numbers.FP8) >= unit.peak(Numbers.FP16)


def test_a_data_sheet_without_peaks_is_no_unit() -> None:
    with pytest.raises(UsageError, match="were not published"):
        unit_named("speedAI240 Slim")
    assert "speedai240" not in units({})


@pytest.mark.parametrize("name", [n for n, p in SHIPPED.items() if p.is_gpu])
def test_operators_and_roofline_have_the_same_peaks(name: str) -> None:
    unit, roof = unit_of(SHIPPED[name], SHIPPED), roofs(SHIPPED)[name]
    assert unit is not None
    assert unit.peak(Numbers.FP8) >= unit.peak(Numbers.FP16) >= unit.peak(Numbers.FP32)
    for numbers in roof.native - {Numbers.FP32}:
        assert unit.peak(numbers) == pytest.approx(roof.matrix_flops[numbers], rel=0.01)


@pytest.mark.parametrize("name", [n for n, p in SHIPPED.items() if p.is_gpu and not p.parent])
def test_a_platform_and_its_data_sheet_agree(name: str) -> None:
    platform, unit = SHIPPED[name], known_unit(SHIPPED[name], SHIPPED)
    assert unit is not None
    sheet, signature = unit.sheet, SHIPPED[name].signature
    assert platform.cores == sheet.multiprocessors
    assert platform.memory_bytes == sheet.memory_bytes
    assert platform.power_w == sheet.power_w
    assert unit.vector_flops == pytest.approx(signature.flops_f32_per_s, rel=0.01)
    dram, l2 = signature.level("dram"), signature.level("l2")
    assert dram is not None
    assert l2 is not None
    assert 0.7 < dram.total_bytes_per_s / unit.bytes_per_s < 1
    assert l2.capacity_bytes == sheet.l2_bytes


def test_a_site_points_to_its_device_by_any_of_its_names() -> None:
    base = SHIPPED["h100-80gb"]
    for alias in ("h100-sxm-80gb", "NVIDIA H100 80GB HBM3", "H100 SXM5"):
        ours = base.model_copy(update={"name": "ours", "accelerator": alias})
        found = unit_of(ours, {"ours": ours})
        listed = unit_of(base, SHIPPED)
        assert found is not None
        assert listed is not None
        assert found.name == "ours"
        assert {n: found.peak(n) for n in Numbers} == {n: listed.peak(n) for n in Numbers}


def test_an_older_file_of_a_shipped_platform_keeps_its_device() -> None:
    raw = json.loads(to_json(SHIPPED["a100-80gb"]))
    del raw["accelerator"], raw["signature"]["peaks"]
    old = parse_json(json.dumps(raw), Platform, source="a100-80gb.json")
    found = unit_of(old, {old.name: old})
    assert found is not None
    assert found.sheet.name == "a100-pcie-80gb"


@pytest.mark.parametrize(
    ("accelerator", "message", "hint"),
    [
        ("h200-smx", "platform ours: no accelerator is called 'h200-smx'", "h200-sxm-141gb"),
        ("A100", "platform ours: 'A100' may be several devices", "a100-pcie-40gb"),
    ],
)
def test_a_wrong_accelerator_is_refused_with_the_nearest(
    accelerator: str, message: str, hint: str
) -> None:
    ours = SHIPPED["h200-141gb"].model_copy(update={"name": "ours", "accelerator": accelerator})
    with pytest.raises(UsageError, match=message) as raised:
        unit_of(ours, {"ours": ours})
    assert hint in (raised.value.hint or "")


def test_a_unit_is_found_by_its_platform_or_its_device() -> None:
    known = units(SHIPPED)
    assert get_unit("h100-80gb", known) is get_unit("H100-SXM5-80GB", known)
    assert unit_of(SHIPPED["quartz"], SHIPPED) is None


def test_a_slice_is_its_share_of_the_gpu() -> None:
    whole = unit_of(SHIPPED["a100-40gb"], SHIPPED)
    part = unit_of(SHIPPED["a100-mig-1g.5gb"], SHIPPED)
    assert whole is not None
    assert part is not None
    assert part.multiprocessors == SHIPPED["a100-mig-1g.5gb"].cores
    share = part.multiprocessors / whole.multiprocessors
    assert part.vector_flops == pytest.approx(whole.vector_flops * share)
    assert part.peak(Numbers.FP16) == pytest.approx(whole.peak(Numbers.FP16) * share)
    assert part.bytes_per_s == pytest.approx(whole.bytes_per_s / 8, rel=0.01)
    assert part.l2_bytes < whole.l2_bytes
    assert part.memory_bytes < whole.memory_bytes


def test_a_gpu_that_nobody_knows_has_its_signature_alone() -> None:
    own = SHIPPED["a100-40gb"].model_copy(
        update={"name": "our-gpu", "accelerator": None, "power_w": None}
    )
    found = unit_of(own, {**SHIPPED, "our-gpu": own})
    assert found is not None
    assert found.sheet.process_nm is None
    assert found.power_w is None
    assert found.peak(Numbers.FP16) == found.peak(Numbers.FP32) == own.signature.flops_f32_per_s
    assert known_unit(own, {"our-gpu": own}) is None


def with_peaks(platform: Platform, peaks: Peaks) -> Platform:
    signature = platform.signature.model_copy(update={"peaks": peaks})
    return platform.model_copy(update={"signature": signature})


def test_a_platform_file_states_its_own_peaks_over_the_data_sheets(tmp_path: Path) -> None:
    matrix = {Precision.FP16: 200e12, Precision.FP8: 900e12}
    made = with_peaks(SHIPPED["a100-40gb"], Peaks(vector={Precision.FP32: 19e12}, matrix=matrix))
    path = tmp_path / "a100-40gb.json"
    path.write_text(to_json(made))
    assert read_json(path, Platform) == made
    known = {**SHIPPED, made.name: made}
    unit, roof = unit_of(made, known), roof_of(made, known, made.cores)
    assert unit is not None
    assert unit.peak(Numbers.FP8) == roof.matrix_flops[Numbers.FP8] == 900e12
    assert unit.peak(Numbers.FP16) == 200e12
    assert unit.peak(Numbers.BF16) == 312e12  # by the data sheet
    part = unit_of(SHIPPED["a100-mig-1g.5gb"], known)
    assert part is not None
    assert part.peak(Numbers.FP8) == pytest.approx(900e12 * 14 / 108)


def test_a_cpu_with_matrix_units_says_so() -> None:
    cpu = with_peaks(SHIPPED["rome-7742"], Peaks(matrix={Precision.BF16: 400e12}))
    known = {cpu.name: cpu}
    every, half = roof_of(cpu, known, cpu.cores), roof_of(cpu, known, cpu.cores // 2)
    assert every.native == {Numbers.FP32, Numbers.BF16}
    assert every.matrix_flops[Numbers.BF16] == 400e12
    assert half.matrix_flops[Numbers.BF16] == 200e12
    assert every.matrix_flops[Numbers.FP32] == every.vector_flops
