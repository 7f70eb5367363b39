"""Training sees only what it may; the bundle is what was trained, whole, and the same again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from berth.pilot.errors import DocumentError, ToolMissing
from berth.predictor.families.graph.operators import bundle
from berth.predictor.families.graph.operators.bundle import CONSTANTS, OperatorGroup
from berth.predictor.families.graph.operators.calls import (
    CallKind,
    Calls,
    convolutions,
    linears,
    products,
    vectors,
)
from berth.predictor.families.graph.operators.physics import Places, PowerLimit, base_seconds
from berth.predictor.families.graph.operators.predictor import OperatorModel
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import unit_named
from lab.__main__ import lab
from lab.ground.report import Report
from lab.operators import silicon_held_out as held_out
from lab.operators.fit_operators import Size, fit, launches
from lab.operators.operator_rows import Rows, chip_of

pytest.importorskip("xgboost")
from lab.operators import evaluate_operators as run
from lab.operators import operator_bundle as training
from lab.operators import whole_models

TINY = Size(rows=900, rounds=25, depth=4)
LAW_HERE = PowerLimit(20.0, 1.0)
GPUS = ("v100-pcie-32gb", "t4-16gb", "a100-pcie-40gb")
NAMES = {
    "bmm": CallKind.PRODUCT, "linear": CallKind.LINEAR, "conv": CallKind.CONVOLUTION,
    "add": CallKind.BINARY, "relu": CallKind.UNARY, "softmax": CallKind.SOFTMAX,
    "ln": CallKind.NORMALISATION,
}  # fmt: skip


def made_up(each: int = 260) -> Rows:
    """GPUs that reach 60 % of their base, after a launch of 20 us."""
    rng, parts = np.random.default_rng(0), []
    for gpu in GPUS:
        for operator, kind in NAMES.items():
            a, b, c = (2.0 ** rng.uniform(2, 11, each) for _ in range(3))
            calls = {
                CallKind.PRODUCT: lambda a=a, b=b, c=c: products(8, a, b, c),
                CallKind.LINEAR: lambda a=a, b=b, c=c: linears(a, b, c),
                CallKind.CONVOLUTION: lambda a=a, b=b: convolutions(4, a, b, 14, 14),
            }.get(kind, lambda kind=kind, a=a, b=b: vectors(kind, 8 * a, b))()
            places = Places.of([unit_named(gpu)], Numbers.FP32, LAW_HERE)
            seconds = 2e-5 + base_seconds(calls, places)[0] / 0.6
            names = np.full(each, gpu)
            parts.append(Rows(
                calls, np.full(each, operator), names, np.array([chip_of(n) for n in names]),
                np.arange(each) % 8 == 0, seconds,
            ))  # fmt: skip
    return Rows(
        Calls.joined(*(p.calls for p in parts)),
        *(
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("operator", "gpu", "chip", "test", "seconds")
        ),
    )


@pytest.fixture(scope="module")
def rows() -> Rows:
    return made_up()


@pytest.fixture
def alone(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What is made up instead of the data set, and nothing remembered of it."""
    for module in (held_out, training):
        monkeypatch.setattr(module, "rows", lambda: rows)
    monkeypatch.setattr(held_out, "QUICK", TINY)
    monkeypatch.setattr(held_out, "POWER_LIMITS", held_out.POWER_LIMITS[:2])
    for kept in (held_out._products, held_out._median_errors, held_out.without):
        kept.cache_clear()
    return rows


@pytest.fixture(scope="module", autouse=True)
def _forget() -> None:
    yield
    for kept in (held_out._products, held_out._median_errors, held_out.without):
        kept.cache_clear()


def test_a_constant_utilisation_is_learnt_and_carries_over_to_an_unseen_gpu(rows: Rows) -> None:
    unseen = rows.chip == "GA100"
    fitted = fit(rows[~unseen], LAW_HERE, 0, TINY)
    errors = np.abs(fitted.seconds(rows[unseen]) / rows.seconds[unseen] - 1)
    assert np.median(errors) < 0.1


def test_launches_come_from_small_training_rows(rows: Rows) -> None:
    own, typical = launches(rows)
    assert typical["relu"] == pytest.approx(2e-5, rel=0.2)
    shorter = replace(rows, seconds=np.where(rows.test, rows.seconds / 1e3, rows.seconds))
    assert launches(shorter) == (own, typical)


def test_the_same_seed_gives_the_same_trees(rows: Rows) -> None:
    first, second = (fit(rows, LAW_HERE, 3, TINY) for _ in range(2))
    assert (first.seconds(rows) == second.seconds(rows)).all()


def test_silicon_that_is_left_out_is_not_learnt_from(
    alone: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = held_out.left_out(0, TINY)
    slow = replace(alone, seconds=np.where(alone.chip == "GA100", 9.0, 1.0) * alone.seconds)
    monkeypatch.setattr(held_out, "rows", lambda: slow)
    for kept in (held_out._products, held_out._median_errors, held_out.without):
        kept.cache_clear()
    after = held_out.left_out(0, TINY)
    of = alone.chip == "GA100"
    assert (before.seconds[of] == after.seconds[of]).all()
    assert before.power["GA100"] == after.power["GA100"]
    assert (before.seconds[~of] != after.seconds[~of]).any()


def test_a_width_weighs_each_gpu_the_same() -> None:
    ratio = np.concatenate([np.full(1_000, 1.0), np.linspace(0.5, 2.0, 10)])
    gpu = np.array(["many"] * 1_000 + ["few"] * 10)
    found = held_out.width_of(ratio, gpu)
    assert (found.rows, found.gpus) == (1_010, 2)
    assert found.low < 0.7
    assert found.high > 1.6


@pytest.fixture
def written(alone: Rows, tmp_path: Path) -> Path:
    training.train(tmp_path / "one", seed=0, command="test", figures={}, size=TINY)
    return tmp_path / "one"


def test_a_bundle_says_what_the_trainer_said_and_the_same_id_again(
    written: Path, alone: Rows
) -> None:
    again = training.train(written.with_name("two"), seed=0, command="again", figures={}, size=TINY)
    assert bundle.verify(written).id == again.id
    power = held_out.choose_power(0)
    fitted = fit(alone, power, 0, TINY)
    model = OperatorModel(bundle.load(written))
    of = alone.gpu == "t4-16gb"
    served = model.seconds(alone.calls[of], [unit_named("t4-16gb")], launch_s=0.0)[0]
    assert served == pytest.approx(fitted.work(alone.calls[of], "t4-16gb"), rel=1e-4)


def test_widths_of_an_evaluation_are_kept(alone: Rows, tmp_path: Path) -> None:
    width = bundle.IntervalFactors(low=0.5, high=1.75, rows=7, gpus=3)
    figures: dict[str, float] = {}
    for name in (*OperatorGroup, training.MODEL_WIDTH, training.HALF_WIDTH):
        figures |= training.width_figures(str(name), width)
    training.train(tmp_path / "b", seed=0, command="test", figures=figures, size=TINY)
    constants = bundle.load(tmp_path / "b").constants
    assert [*constants.widths.values(), constants.model, constants.half] == [width] * 5
    assert "0.50" in (tmp_path / "b" / "CARD.md").read_text()


@pytest.fixture
def evaluated(alone: Rows, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Without the sections that need other data."""

    def absent(*_: object) -> None:
        raise ToolMissing("torch", needed_for="whole models")

    monkeypatch.setattr(run, "rows", lambda: alone)
    monkeypatch.setattr(whole_models, "language_models", absent)
    monkeypatch.setattr(whole_models, "image_models", absent)
    return run.operators_report(0, size=TINY)


def test_an_evaluation_names_splits_and_what_it_left_out(
    evaluated: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {(one.split, one.family) for one in evaluated.data["results"]}
    assert found == {(run.LEFT_OUT, run.OURS)}
    assert set(evaluated.data["skipped"]) == {run.MODELS, run.IMAGES}
    assert set(evaluated.data["power"]) == {"GA100", "TU104", "GV100"}
    monkeypatch.setattr(run, "evaluate", lambda *_: evaluated)
    asked = ["operators", "--report", str(tmp_path)]
    result = CliRunner().invoke(lab, asked)
    assert result.exit_code == 0, result.output
    assert "silicon left out" in result.output
    assert "left out, image models" in result.output
    told = json.loads((tmp_path / "evaluation.json").read_text())["shipped"]
    assert training.named_width(told, OperatorGroup.VECTORS) is not None
    assert training.named_width(told, training.MODEL_WIDTH) is None


def test_a_changed_or_incomplete_bundle_is_refused(written: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(written, changed)
    (changed / CONSTANTS).write_text((changed / CONSTANTS).read_text().replace("20", "21"))
    with pytest.raises(DocumentError, match="checksum"):
        bundle.load(changed)
    (changed / CONSTANTS).unlink()
    with pytest.raises(DocumentError):
        bundle.load(changed)
    with pytest.raises(DocumentError, match="not a bundle folder"):
        bundle.load(tmp_path / "absent")
