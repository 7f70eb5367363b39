"""A node's measurement goes on where it stopped, and begins anew where the node has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot import host, node
from berth.pilot.documents import write_json
from berth.pilot.errors import PilotError
from berth.pilot.node import NodeMeasurement, begin, measure_node
from berth.pilot.suite import Suite

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
