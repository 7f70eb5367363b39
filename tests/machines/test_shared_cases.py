"""Small inputs that showed faults, with their right values, from a folder beside the data sets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from berth.pilot.documents import read_json
from berth.pilot.processor_name import processor_name
from berth.pilot.profile import Profile
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.hardware import platforms
from berth.predictor.hardware.by_sheet import place_named
from berth.predictor.hardware.catalogue import candidates, get
from berth.predictor.hardware.core_speed import core_score
from berth.predictor.hardware.processor_names import core_named, get_processor
from lab import datasets

CASES = datasets.folder().parent / "cases"
MACHINES, PREDICT = CASES / "machines", CASES / "predict"
pytestmark = pytest.mark.skipif(
    not PREDICT.is_dir(), reason=f"needs {CASES}: set {datasets.FOLDER_VARIABLE}"
)


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines() if line.strip()]


def test_processors_are_of_the_core_and_accelerators_are_in_the_catalogue() -> None:
    for name, core, *_ in rows(PREDICT / "names.txt"):
        if not name.startswith("GPUs:"):
            assert (found := core_named(name)) is not None
            assert found.name == core, name
            continue
        first, *others = re.sub(r" \([^)]*\)|GPUs: ", "", name).split(", ")
        for gpu in (first, *others):
            every = [gpu] if "/" not in gpu else [f"RTX {n}" for n in re.findall(r"\d+", gpu)]
            assert all(map(candidates, every)), gpu
    mi250x = get("MI250X")
    assert (mi250x.multiprocessors, mi250x.memory_bytes) == (220, 128 * 2**30)
    assert place_named("MI250X", {}).signature.flops_f64_per_s == pytest.approx(47.9e12, rel=0.01)


def test_the_larger_altra_is_another_processor() -> None:
    largest = get_processor("Ampere Altra Max")
    assert (largest.cores, largest.l3_bytes, largest.core) == (128, 16 * 2**20, "neoverse-n1")
    assert (core_score(place_named("Ampere Altra Max", {})) or largest).deviation > 0


def test_double_precision_is_that_of_the_generation() -> None:
    for name, words, *_ in rows(PREDICT / "fp64_rule.txt"):
        rate = float(re.search(r"\d+", words.replace("FP64", ""))[0])  # type: ignore[index]
        assert place_named(name, {}).signature.flops_f64_per_s == pytest.approx(
            rate * 1e9, rel=0.01
        )


@pytest.mark.parametrize("program", ["molecular_dynamics", "element_matrices"])
def test_bytes_that_no_counted_window_saw_leave_a_useful_interval(program: str) -> None:
    known = platforms.load()
    own = read_json(PREDICT / f"miss_doubt_{program}.json", Profile)
    forecast = Forecaster(families=("program",)).forecast(workload_of(own), known)
    there = forecast.curves["rome-7742"].nearest(1)
    assert there.abstained is None
    assert there.runtime_s.high < 2.5 * there.runtime_s.mid


@pytest.mark.parametrize(
    ("file", "core"),
    [
        ("aarch64_cpuinfo", "neoverse-v2"),
        ("e5_2670", "sandy-bridge"),
        ("westmere_name", "westmere"),
    ],
)
def test_a_cpuinfo_tells_the_core(file: str, core: str) -> None:
    found = core_named(processor_name((MACHINES / f"{file}.txt").read_text().splitlines()))
    assert found is not None
    assert found.name == core
