"""One rule of names for every kind of workload; platforms made from data sheets."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot.documents import read_json, write_json
from berth.pilot.errors import UsageError
from berth.pilot.instruction_sets import expanded
from berth.pilot.platform import Peaks, Platform, Precision
from berth.plugin.cli import main
from berth.predictor.hardware import platforms
from berth.predictor.hardware.by_sheet import like, place_named, platform_of
from berth.predictor.hardware.catalogue import devices, get
from berth.predictor.hardware.core_speed import core_score, processor_score
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.processor import Processor, cores, processors
from berth.predictor.hardware.unit import known_unit, published

SHIPPED = platforms.shipped()


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        ("h100-80gb", "h100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("h200-141gb-mig-1g.18gb", "h200-141gb-mig-1g.18gb"),
        ("MI300X", "mi300x-192gb"),
        ("MI325X", "mi325x-256gb"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"),
        ("quartz", "quartz"),
        ("AMD EPYC 7763 64-Core Processor", "epyc-7763"),
        ("Xeon Platinum 8358", "xeon-8358"),
    ],
)
def test_a_name_is_a_platforms_or_a_devices(name: str, platform: str) -> None:
    assert place_named(name, SHIPPED).name == platform


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("H100", "may be several devices"),
        ("speedai240", "not published"),
        ("nothing like it", "no platform"),
    ],
)
def test_other_names_are_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        place_named(name, SHIPPED)


def test_two_platforms_of_one_device_are_told_apart() -> None:
    twin = SHIPPED["h100-80gb"].model_copy(update={"name": "h100-new"})
    with pytest.raises(UsageError, match="several platforms") as raised:
        place_named("h100-sxm-80gb", {**SHIPPED, "h100-new": twin})
    assert "h100-new" in (raised.value.hint or "")


@pytest.mark.parametrize("processor", processors().values(), ids=lambda cpu: cpu.name)
def test_every_cpu_of_the_catalogue_is_a_platform_by_its_sheet(processor: Processor) -> None:
    node = like("node", processor.model, SHIPPED, sockets=2)
    assert (node.cores, node.processor) == (2 * processor.cores, processor.model)
    dram = node.signature.level("dram")
    assert dram is not None
    assert dram.total_bytes_per_s < 2 * processor.bytes_per_s
    score = core_score(node)
    assert score is not None
    assert processor_score(processor) == score
    assert expanded(node.instruction_sets) or not cores()[processor.core].instruction_set


def test_a_cpu_without_its_avx512_has_a_lower_instruction_set() -> None:
    assert like("desktop", "i9-12900ks", {}).instruction_sets == ("x86-64-v3",)
    assert like("server", "xeon-8480plus", {}).instruction_sets == ("x86-64-v4",)


@pytest.mark.parametrize("model", ["a100-80gb", "quartz"])
def test_sockets_are_of_a_cpus_data_sheet(model: str) -> None:
    with pytest.raises(UsageError, match="not a CPU of the catalogue"):
        like("node", model, SHIPPED, sockets=2)


@pytest.mark.parametrize("device", [d for d in devices().values() if published(d)])
def test_a_platform_by_its_sheet_has_the_sheets_figures(device: DataSheet) -> None:
    platform = platform_of(device)
    unit = known_unit(platform, {platform.name: platform})
    assert unit is not None
    assert unit.sheet == device
    assert platform.memory_bytes == device.memory_bytes
    rates = [level.total_bytes_per_s for level in platform.signature.memory]
    assert rates == sorted(rates, reverse=True)


def test_estimated_caches_are_near_those_of_shipped_platforms() -> None:
    for name in ("h100-80gb", "rtx-5090-32gb", "mi300x-192gb", "a100-40gb"):
        ours = platform_of(get(SHIPPED[name].accelerator or name)).signature
        for level in SHIPPED[name].signature.memory:
            own = ours.level(level.level)
            assert own is not None
            assert 0.5 < own.total_bytes_per_s / level.total_bytes_per_s < 2


def test_a_platform_file_with_peaks_is_an_accelerator_without_the_catalogue() -> None:
    peaks = Peaks(vector={Precision.FP32: 1e14}, matrix={Precision.BF16: 1e15})
    base = SHIPPED["h100-80gb"]
    ours = base.model_copy(
        update={
            "name": "x1",
            "accelerator": None,
            "signature": base.signature.model_copy(update={"peaks": peaks}),
        }
    )
    unit = known_unit(ours, {"x1": ours})
    assert unit is not None
    assert unit.flops_per_s(16) == 1e15
    bare = ours.model_copy(update={"signature": base.signature})
    assert known_unit(bare, {"x1": bare}) is None


def test_a_platform_is_added_like_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(platforms.FOLDER_VARIABLE, str(tmp_path))
    added = ["site", "platform", "add", "our-mi", "--like", "MI325X"]
    assert not main(added)
    ours = read_json(tmp_path / "our-mi.json", Platform)
    assert (ours.accelerator, ours.cores, ours.price_per_hour) == ("mi325x-256gb", 304, None)
    assert platforms.load(tmp_path)["our-mi"] == ours
    with pytest.raises(SystemExit) as stopped:
        main(added)
    assert stopped.value.code == 2
    assert "there is a platform 'our-mi' already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "model", "said"),
    [
        ("a40", "mi325x", "a name of the NVIDIA A40"),
        ("ours", "gaudi3-128gb", "only programs for CUDA and HIP"),
        ("ours", "h999", "no platform"),
    ],
)
def test_what_a_platform_cannot_be_like_is_refused(name: str, model: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        like(name, model, SHIPPED)


def test_a_site_may_copy_its_own_platform(tmp_path: Path) -> None:
    ours = like("rack-2", "quartz", SHIPPED)
    write_json(tmp_path / "rack-2.json", ours)
    assert ours.signature == SHIPPED["quartz"].signature
    assert platforms.load(tmp_path)["rack-2"].cores == SHIPPED["quartz"].cores


@pytest.mark.parametrize(
    ("device", "gflops"),
    [
        ("t4-16gb", 254), ("p4-8gb", 178), ("titan-x-pascal-12gb", 343),
        ("gtx-1080-ti-11gb", 354), ("rtx-2080-ti-11gb", 420), ("firepro-s9150-16gb", 2530),
        ("hd-7970-3gb", 947), ("r9-290x-4gb", 704), ("rtx-5090-32gb", 1637),
    ],
)  # fmt: skip
def test_double_precision_is_that_of_the_sheet_or_of_the_generation(
    device: str, gflops: float
) -> None:
    assert place_named(device, {}).signature.flops_f64_per_s / 1e9 == pytest.approx(
        gflops, rel=0.01
    )


@pytest.mark.parametrize("device", ["b200-sxm-180gb", "gb300-nvl72", "mi355x-288gb"])
def test_a_second_level_cache_is_faster_than_main_memory(device: str) -> None:
    signature = place_named(device, {}).signature
    l2, dram = signature.level("l2"), signature.level("dram")
    assert l2 is not None
    assert dram is not None
    assert l2.total_bytes_per_s >= 1.9 * dram.total_bytes_per_s
