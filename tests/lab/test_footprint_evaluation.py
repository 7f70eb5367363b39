"""The bars of predicted memory on the public labels, each model left out."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import convolutional, graph_of

from berth.pilot.errors import BerthError
from berth.predictor.core.prediction import Interval
from berth.predictor.footprint.footprint import MemoryTask, count
from berth.predictor.footprint.runtimes import DeviceMemory, RuntimeName, runtimes
from berth.predictor.graphs.reader import ModelReader
from lab.datasets.mig import TrainingRow
from lab.footprint.evaluate_memory import host_table, printed_table, slices_table
from lab.footprint.fit_memory import (
    fit_forward,
    fit_host,
    new_model,
    training_shares,
)
from lab.footprint.host_memory import host_figures
from lab.footprint.memory_labels import (
    DUMMY_MIB,
    MIB,
    Forward,
    Hosted,
    Trained,
    forwards,
    read,
    trained,
)
from lab.footprint.miso import PROGRAMS
from lab.footprint.printed_table import PrintedFigures, printed_figures, smallest
from lab.footprint.sketch import convnext_base
from lab.footprint.slice_fits import SliceFits, slice_fits


@pytest.fixture(scope="module")
def cases() -> list[Forward]:
    try:
        return forwards()
    except BerthError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def loads() -> list[Trained]:
    try:
        return trained()
    except BerthError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def printed(cases: list[Forward]) -> PrintedFigures:
    return printed_figures(cases)


@pytest.fixture(scope="module")
def judged(loads: list[Trained]) -> SliceFits:
    return slice_fits(loads)


def test_the_profile_is_right_in_six_of_six(printed: PrintedFigures) -> None:
    assert printed.profiles_right == (6, 6)


def test_memory_of_models_left_out_is_nearer_than_dippm_s_own(printed: PrintedFigures) -> None:
    errors = [case.error for case in printed.cases if case.error is not None]
    assert np.mean(errors) < 0.04
    assert printed.dippm_error > 0.08


def test_no_slice_is_predicted_to_fit_that_failed_and_few_are_refused(judged: SliceFits) -> None:
    ours = judged.rows[0]
    assert ours.false_fits == 0
    assert ours.refusal_share <= 0.03
    reservation = next(row for row in judged.rows if row.name == "reservation")
    assert (reservation.false_fits, reservation.false_refusals) == (0, 15)


def test_shipped_gpu_memory_models_are_learnt_from_these_labels(
    cases: list[Forward], loads: list[Trained]
) -> None:
    forward, training = (
        runtimes()[name].memory for name in (RuntimeName.GPU_FORWARD, RuntimeName.GPU_TRAINING)
    )
    fitted = fit_forward([case for case in cases if case.printed.actual_mib is not None])
    assert isinstance(forward, DeviceMemory)
    assert forward.context_bytes.mid == pytest.approx(fitted.context_bytes.mid)
    assert forward.share == fitted.share
    assert training.share.high == pytest.approx(training_shares(loads).span.high, rel=1e-6)


def test_tables_name_their_split(printed: PrintedFigures, judged: SliceFits) -> None:
    tables = [printed_table(printed), slices_table(judged)]
    assert sum("leave-one-model-out" in title for title, _, _ in tables) == 2
    for _, header, rows in tables:
        assert all(len(row) == len(header) for row in rows)


def test_programs_and_networks_have_the_published_numbers_of_parameters() -> None:
    millions = {"resnet": 23.5, "mobilenet": 2.26, "bert": 108.3, "deepspeech2": 26.6}
    with ModelReader() as reader:
        for name, wanted in millions.items():
            sketch, output = PROGRAMS[name].networks[0][0]()
            graph = read(reader, sketch.model(output).SerializeToString(), 1, name)
            assert graph.parameters / 1e6 == pytest.approx(wanted, rel=0.02), name
        sketch, output = convnext_base()
        graph = read(reader, sketch.model(output).SerializeToString(), 1, "convnext_base")
    assert graph.parameters / 1e6 == pytest.approx(88.59, rel=1e-3)
    assert graph.total_macs / 1e9 == pytest.approx(15.36, rel=0.01)


@pytest.mark.parametrize(
    ("need", "profile"),
    [(0, "1g.5gb"), (4864, "1g.5gb"), (4865, "2g.10gb"), (20096, "3g.20gb"), (40449, None)],
)
def test_the_smallest_profile_is_the_first_that_holds_the_need(
    need: float, profile: str | None
) -> None:
    assert smallest(need) == profile


def test_a_new_model_s_interval_is_student_s() -> None:
    found = new_model([90.0, 100.0, 110.0])
    assert found.mid == 100
    assert found.high - found.mid == pytest.approx(4.303 * 10 * (4 / 3) ** 0.5, rel=1e-3)
    assert new_model([1.0, 200.0]).low == 0  # no memory is negative
    assert isinstance(found, Interval)


def test_a_host_memory_model_finds_the_weights_that_made_its_labels() -> None:
    rows = []
    for blocks in (1, 2, 4, 8):
        for channels in (64, 256, 512):
            for batch in (1, 64):
                graph = graph_of(convolutional(blocks, channels), batch)
                need = count(graph, MemoryTask.INFERENCE, on_gpu=False)
                peak = 1e8 + 2 * need.weights + 0.5 * (need.activations + need.inputs)
                name = f"{blocks} of {channels}"
                rows.append(Hosted(name, "onnxruntime", need, peak))
    memory = fit_host(rows)
    # Each of these has one product, so the two cannot be told apart.
    assert memory.base_bytes + memory.a_product == pytest.approx(1e8, rel=0.01)
    assert memory.a_weight_byte == pytest.approx(2, rel=0.01)
    assert memory.share.high == pytest.approx(1, abs=0.01)
    figures = host_figures(rows)
    assert figures[0].mean_error < 0.01
    assert figures[0].rows == len(rows)
    _, header, lines = host_table(figures)
    assert all(len(line) == len(header) for line in lines)


def test_labels_are_in_mebibytes_of_what_can_be_counted(cases: list[Forward]) -> None:
    for case in cases:
        if case.printed.actual_mib is not None:
            assert case.need.allocated / MIB < case.printed.actual_mib


def load(model: str, counted: float, above: float, at_most: float) -> Trained:
    """A program that failed on slices up to ``above`` and was reserved ``at_most`` (MiB, without
    what TensorFlow takes by itself)."""
    rows = tuple(
        TrainingRow(model, 1, profile, 1, None, None, at_most, None, None, None, fits)
        for profile, fits in (("1g.5gb", above < 4864 - DUMMY_MIB), ("7g.40gb", True))
    )
    return Trained(model, 1, counted, DUMMY_MIB + at_most, rows)


def test_labels_that_bound_the_need_on_both_sides_are_found_again() -> None:
    # Each failed on 4,864 MiB and was reserved 10 % more: the need is known to 10 %.
    least = 4864.0 - DUMMY_MIB
    cases = [load(f"m{n}", least / 1.2, least, 1.1 * least) for n in range(12)]
    found = training_shares(cases).span
    assert 1.15 < found.mid < 1.35
    assert found.high / found.low < 2


def test_labels_that_say_little_leave_the_interval_wide() -> None:
    cases = [load(f"m{n}", 100.0, 0, 3000.0) for n in range(3)]
    found = training_shares(cases).span
    assert found.high / found.low > 3
    narrow = training_shares(cases, prior_width=0.1).span
    assert narrow.high / narrow.low < found.high / found.low


def test_a_program_is_judged_by_the_others_alone() -> None:
    least = 4864.0 - DUMMY_MIB
    alike = [load(f"m{n}", least / 1.2, least, 1.1 * least) for n in range(6)]
    odd = load("odd", least / 6, least, 1.1 * least)  # needs six times what is counted
    judged = slice_fits([*alike, odd])
    ours = next(row for row in judged.rows if row.name == "graph and reservation")
    assert "odd 1 on 1g.5gb" in ours.wrong
    assert ours.false_fits == 1
    assert ours.failed == 7
