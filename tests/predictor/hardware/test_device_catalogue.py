"""One catalogue: every device by any of its names, every figure with its source."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Precision
from berth.predictor.hardware import platforms
from berth.predictor.hardware.catalogue import (
    FOLDER,
    candidates,
    device_of,
    devices,
    find,
    get,
    platform_named,
    simplified,
)
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.mig.slices import geometries
from lab.datasets import folder

ALL = devices()
SHARED = {
    simplified(n) for d in ALL.values() for n in (d.name, *d.aliases) if len(candidates(n)) > 1
}
NAMES = sorted({(n, d.name) for d in ALL.values() for n in (d.name, *d.aliases)})


@pytest.mark.parametrize("name", ALL)
def test_a_file_is_called_like_its_device(name: str) -> None:
    assert (FOLDER / f"{name}.json").is_file()


@pytest.mark.parametrize("device", ALL.values(), ids=list(ALL))
def test_a_data_sheet_makes_sense(device: DataSheet) -> None:
    assert all(len(source) > 5 for source in device.sources.values())
    assert device.mig is None or device.mig in geometries()
    if device.peaks is not None:
        peaks = device.peaks
        for table in (peaks.vector, peaks.matrix):
            assert table.get(Precision.FP64, 0) <= table.get(Precision.FP32, float("inf"))
        halves = {peaks.matrix.get(p) for p in (Precision.TF32, Precision.FP16)} - {None}
        assert sorted(halves) == [  # type: ignore[type-var]
            peaks.matrix[p] for p in (Precision.TF32, Precision.FP16) if p in peaks.matrix
        ]
    if device.clock_hz and device.multiprocessors and device.peaks and device.vendor != "google":
        lanes = device.peaks.vector[Precision.FP32] / device.clock_hz / device.multiprocessors / 2
        # 64, 128 or (Kepler) 192 lanes a multiprocessor.
        assert min(abs(lanes / n - 1) for n in (64, 128, 192)) < 0.03


@pytest.mark.parametrize(("name", "device"), NAMES)
def test_every_name_finds_its_device_or_names_the_candidates(name: str, device: str) -> None:
    if simplified(name) not in SHARED:
        found = find(name)
        assert found is not None
        assert found.name == device
        return
    with pytest.raises(UsageError, match="may be several devices") as raised:
        find(name)
    assert device in (raised.value.hint or "")


def test_canonical_names_are_never_ambiguous() -> None:
    assert not SHARED & {simplified(name) for name in ALL}


@given(st.sampled_from([pair for pair in NAMES if simplified(pair[0]) not in SHARED]), st.data())
def test_case_and_punctuation_do_not_matter(pair: tuple[str, str], data: st.DataObject) -> None:
    name, device = pair
    flipped = "".join(
        data.draw(st.sampled_from((c.lower(), c.upper()))) if c.isalnum()
        else data.draw(st.sampled_from((" ", "-", "_", "--")))
        for c in name
    )  # fmt: skip
    assert get(flipped).name == device


@given(st.text(max_size=60))
def test_any_text_is_answered_in_one_sentence(text: str) -> None:
    try:
        found = find(text)
    except UsageError:
        return
    assert found is None or found.name in ALL


def test_one_gpu_has_one_name() -> None:
    names = (
        "h100-sxm-80gb", "NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", "h100_sxm", "Nvidia H100 GPU",
        "NVIDIA H100-SXM-80GB",
    )  # fmt: skip
    assert {get(name).name for name in names} == {"h100-sxm-80gb"}
    shipped = platforms.shipped()
    assert {platform_named(name, shipped).name for name in names} == {"h100-80gb"}


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"),
        ("AMD Instinct MI355X OAM", "mi355x-288gb"),
        ("NVIDIA GH200 120GB", "gh200-96gb"),  # and no CPU
        ("Gaudi 3", "gaudi3-128gb"),
    ],
)
def test_drivers_names_of_common_accelerators(name: str, device: str) -> None:
    assert get(name).name == device
    assert get(name).peaks is not None


@pytest.mark.parametrize("name", ["H100", "A100", "V100", "MI250", "A100-80GB"])
def test_a_name_of_several_devices_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="may be several") as raised:
        get(name)
    assert (raised.value.hint or "").startswith("one of ")


def test_every_shipped_gpu_has_its_device() -> None:
    for platform in platforms.shipped().values():
        if platform.is_gpu and platform.parent is None:
            device = device_of(platform)
            assert device is not None
            assert device.name == platform.accelerator


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sources": {"sheet": "a", "colour": "b"}}, "colour"),
        ({"sources": {}}, "sheet"),
        ({"power_w": -1}, "power_w"),
        ({"peaks": {"vector": {"fp33": 1}}}, "fp33"),
        ({"memory": 3}, "memory"),
    ],
)
def test_a_data_sheet_that_makes_no_sense_is_refused(change: dict[str, object], said: str) -> None:
    raw = json.loads((FOLDER / "l4-24gb.json").read_text()) | change
    with pytest.raises(DocumentError, match=said):
        parse_json(json.dumps(raw), DataSheet, source="l4-24gb.json")


IN_DATA_SETS = {
    "dl/mlperf_inference_v41.parquet": "accelerator",
    "dl/neusight_ops.parquet": "device",
    "dl/neusight_e2e.csv": "device",
    "llm/llm_inference_bench.csv": "Hardware",
    "llm/serving_silicon.parquet": "system",
    "machines/gpu_specs.csv": "Device",
}


@pytest.mark.parametrize(("path", "column"), IN_DATA_SETS.items())
def test_every_accelerator_of_the_data_sets_is_known(path: str, column: str) -> None:
    file = folder() / path
    if not file.is_file():
        pytest.skip(f"needs {path}: set BERTH_DATASETS")
    for name in names_of(file, column):
        assert get(name)


def names_of(file: Path, column: str) -> set[str]:
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as stream:
            return {row[column] for row in csv.DictReader(stream)}
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(file, columns=[column]).column(column).to_pylist()
    return {name for name in found if name}


def test_figures_of_neusight_agree_where_they_are_of_real_parts() -> None:
    """One of two rows of the H100 is no real part; an L4's multiprocessors and P4's are wrong."""
    file = folder() / "machines/gpu_specs.csv"
    if not file.is_file():
        pytest.skip("needs machines/gpu_specs.csv: set BERTH_DATASETS")
    with file.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["Dev_Mem"] != "160"]
    for row in rows:
        device = get(row["Device"])
        assert device.bytes_per_s == pytest.approx(float(row["Mem_Bw"]) * 1e9, rel=0.03)
        if device.name not in {"l4-24gb", "p4-8gb"}:
            assert device.multiprocessors == int(row["Num_Sm"])
        if row["SingleFLOPs"] and device.peaks is not None:
            fp32 = device.peaks.vector[Precision.FP32]
            assert fp32 == pytest.approx(float(row["SingleFLOPs"]) * 1e9, rel=0.035)
