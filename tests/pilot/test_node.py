"""A node's measurement goes on where it stopped, and begins anew where the node has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot import host, node
from berth.pilot.documents import write_json
from berth.pilot.errors import PilotError
from berth.pilot.node import NodeMeasurement, begin, kernel_seconds, measure_node
from berth.pilot.suite import Kernel, KernelRun, KernelWork, Suite
from berth.predictor.hardware import platforms

TIMES = {"Stream_TRIAD-1048576": 1e-3}


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Half of a measurement that was made here."""
    into = tmp_path / "n1.json"
    write_json(into, begin(into, node="n1").model_copy(update={"seconds": TIMES}))
    return into


def test_what_was_measured_is_used_again(measured: Path) -> None:
    assert begin(measured, node="n1").seconds == TIMES


def test_problems_of_the_last_try_are_forgotten(measured: Path) -> None:
    found = begin(measured, node="n1")
    write_json(measured, found.model_copy(update={"problems": ("no compiler",)}))
    assert begin(measured, node="n1").problems == ()


def test_another_node_begins_anew(measured: Path) -> None:
    assert begin(measured, node="n2").seconds == {}


@pytest.mark.parametrize("what", ["kernel_release", "gpu_driver"])
def test_another_kernel_or_driver_begins_anew(
    measured: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(node, what, lambda: "550.54")
    assert begin(measured, node="n1").seconds == {}


def test_a_broken_file_begins_anew(tmp_path: Path) -> None:
    into = tmp_path / "n1.json"
    into.write_text("{")
    assert begin(into, node="n1").seconds == {}


def test_a_suite_that_cannot_be_built_is_a_problem_of_the_node(measured: Path) -> None:
    def build() -> Suite:
        raise PilotError("the kernels could not be built")

    found = measure_node(measured, build, name="n", node="n1")
    assert found.problems == ("the kernels could not be built",)
    assert not found.complete
    assert found.seconds == TIMES
    assert begin(measured, node="n1").seconds == TIMES


@pytest.mark.parametrize(("text", "version"), [("550.54.15\n", "550.54.15"), ("\n", None)])
def test_the_driver_is_what_the_module_says(tmp_path: Path, text: str, version: str | None) -> None:
    (tmp_path / "version").write_text(text)
    assert host.gpu_driver(tmp_path / "version") == version


def test_without_a_driver_there_is_none(tmp_path: Path) -> None:
    assert host.gpu_driver(tmp_path / "none") is None


def test_an_interrupted_measurement_says_that_it_is_not_complete(measured: Path) -> None:
    assert not NodeMeasurement.model_validate_json(measured.read_text()).complete


class FakeSuite:
    """Three kernels; what was run is in ``ran``."""

    kernels = tuple(
        Kernel(name, name.partition("_")[0], sampled=False, default_sizes=())
        for name in ("Stream_TRIAD", "Polybench_GEMM", "Lcals_BIG", "File_WRITE")
    )

    left_out: str | None = None

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []

    def kernel(self, name: str) -> Kernel:
        return next(kernel for kernel in self.kernels if kernel.name == name)

    def chosen(self, names: tuple[str, ...]) -> tuple[Kernel, ...]:
        return tuple(map(self.kernel, names)) or self.kernels

    def work(self, size: int) -> dict[str, KernelWork]:
        held = {"Lcals_BIG": 2 * node.LARGE_BYTES}
        return {
            k.name: KernelWork(k.name, size, size, size, 8, 1, 1, held.get(k.name, 8 * size))
            for k in self.kernels
        }

    def run(self, name: str, size: int, reps: int = 1, fraction: float = 1.0) -> KernelRun:
        self.ran.append((name, size))
        each_s = 0.2 if name == "Polybench_GEMM" else size * 1e-9
        if name == "Stream_TRIAD" and size == node.LARGE_SIZE and self.refuses:
            raise PilotError("the kernel was killed")
        return KernelRun(self.work(size)[name], 1, 1, 1, (each_s,) * reps, 0.6 * each_s * reps)

    refuses = False


def measured_by(suite: FakeSuite, into: Path, *kernels: str) -> NodeMeasurement:
    here = platforms.shipped()["quartz"]
    signature = here.signature.model_copy(update={"processor_share": 0.6})
    here = here.model_copy(update={"name": "n", "signature": signature})
    write_json(into, begin(into, node="n1").model_copy(update={"platform": here}))
    return measure_node(into, lambda: suite, name="n", node="n1", kernels=kernels)  # type: ignore[arg-type,return-value]


def test_loops_that_are_short_and_small_are_timed_at_a_second_size(tmp_path: Path) -> None:
    suite = FakeSuite()
    found = measured_by(suite, tmp_path / "n1.json")
    names = {f"{kernel.name}-{node.SIZE}" for kernel in suite.kernels}
    assert set(found.seconds) == {*names, f"Stream_TRIAD-{node.LARGE_SIZE}"}
    assert found.complete
    assert found.seconds[f"Stream_TRIAD-{node.LARGE_SIZE}"] == pytest.approx(8.39e-3, rel=0.01)


def test_a_kernels_time_is_its_processor_time_over_the_nodes_share_unless_it_waits_for_a_disk() -> (
    None
):
    suite: Suite = FakeSuite()  # type: ignore[assignment]
    for share, seconds in ((1.0, 0.12), (0.6, 0.2)):
        found = kernel_seconds(suite, "Polybench_GEMM", 1.0, size=node.SIZE, share=share)
        assert found == pytest.approx(seconds)
    written = kernel_seconds(suite, "File_WRITE", 1.0, size=node.SIZE, share=0.6)
    assert written == pytest.approx(node.SIZE * 1e-9)


def test_kernels_left_out_as_wrong_are_a_problem_that_stops_nothing(measured: Path) -> None:
    suite = FakeSuite()
    suite.left_out = "left out: Single_PAIRS"
    found = measured_by(suite, measured)
    assert found.problems == ("left out: Single_PAIRS",)
    assert found.complete


def test_named_kernels_have_one_size(tmp_path: Path) -> None:
    found = measured_by(FakeSuite(), tmp_path / "n1.json", "Stream_TRIAD")
    assert set(found.seconds) == {f"Stream_TRIAD-{node.SIZE}"}


def test_a_kernel_that_fails_at_the_second_size_is_told_and_the_rest_is_kept(
    tmp_path: Path,
) -> None:
    suite = FakeSuite()
    suite.refuses = True
    found = measured_by(suite, tmp_path / "n1.json")
    assert found.problems == ("the kernel was killed",)
    assert len(found.seconds) == len(suite.kernels)
    assert found.complete


def test_a_suite_that_cannot_say_its_work_is_a_problem_of_the_node(tmp_path: Path) -> None:
    class Silent(FakeSuite):
        def work(self, size: int) -> dict[str, KernelWork]:
            raise PilotError("the suite gave no list")

    found = measured_by(Silent(), tmp_path / "n1.json")
    assert found.problems == ("the suite gave no list",)
    assert not found.complete
