"""The protocol of new platforms: who is given, who is tested, and that it repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import UsageError
from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.latency.transfer.cases import Cases, Codes
from berth.predictor.families.graph.latency.transfer.kernel import Kernel
from lab.transfer import curves as few_shot
from lab.transfer import report as few_shot_report
from lab.transfer.baselines import METHODS, Guess, Method
from lab.transfer.table import Table

SAMPLES = (0, 1, 3)
CHEAP = tuple(one for one in METHODS if one.name in ("process", "roofline"))


@pytest.fixture(scope="module")
def found(tiny_table: Table) -> few_shot.FewShot:
    return few_shot.evaluate_few_shot(tiny_table, methods=CHEAP, samples=SAMPLES, most=6)


def test_nothing_of_the_new_device_or_of_a_held_out_model_is_learnt_from(tiny_table: Table) -> None:
    calls: list[tuple[Table, Cases]] = []

    def spy(known: Table, asked: Cases, kernel: Kernel) -> Guess:
        calls.append((known, asked))

        def guess(samples: Codes, residual: Floats) -> Floats:
            del samples, residual
            return np.zeros(len(asked))

        return guess

    method = Method("process", "spy", spy)
    few_shot.evaluate_few_shot(tiny_table, methods=[method], samples=SAMPLES, most=4)
    everything = set(tiny_table.architecture.tolist())
    for known, asked in calls:
        assert not set(known.cases.device.tolist()) & set(asked.device.tolist())
    fewer = [set(known.architecture.tolist()) for known, _ in calls]
    assert sum(one != everything for one in fewer) == few_shot.FOLDS * len(
        np.unique(tiny_table.device)
    )


def test_architectures_that_were_given_are_in_no_test(tiny_table: Table) -> None:
    new = tiny_table[np.flatnonzero(tiny_table.device == "5090")]
    everything = np.arange(len(new))
    seen: list[set[str]] = []

    def guess(samples: Codes, residual: Floats) -> Floats:
        del residual
        seen.append(set(new.architecture[samples].tolist()))
        return np.zeros(len(new))

    part = few_shot._Fold(everything, everything, {"spy": guess}, None)
    rows, _ = few_shot._predicted(new, [part], (few_shot.DEVICE, few_shot.SEEN, "spy"), 5, (0, 0))
    assert seen[0]
    assert not seen[0] & set(new.architecture[rows].tolist())


def test_the_same_seed_gives_the_same_figures(tiny_table: Table, found: few_shot.FewShot) -> None:
    again = few_shot.evaluate_few_shot(tiny_table, methods=CHEAP, samples=SAMPLES, most=6)
    assert repr(again) == repr(found)


def test_samples_help_and_every_device_and_way_is_there(found: few_shot.FewShot) -> None:
    curve = found.mean(gpu=True, drawn_from=few_shot.STACK, models=few_shot.SEEN, method="process")
    assert curve is not None
    assert curve.mape[-1] < curve.mape[0]
    assert {one.device for one in found.curves} == {"3090", "5090", "i7_12700h"}
    assert {one.method for one in found.curves} == {"process", "roofline", few_shot.ADVISED}
    assert all(low <= mid <= high for low, mid, high in zip(
        curve.within_low, curve.within, curve.within_high, strict=True
    ))  # fmt: skip


def test_more_samples_than_models_are_refused(tiny_table: Table) -> None:
    with pytest.raises(UsageError, match="leave no other model"):
        few_shot.evaluate_few_shot(tiny_table, methods=CHEAP, samples=(0, 40), most=4)


def test_a_report_has_every_method_and_a_picture(found: few_shot.FewShot, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = few_shot_report.markdown(found)
    assert "samples of one stack" in text
    assert "| roofline |" in text
    few_shot_report.draw(tmp_path / "picture.svg", found)
    assert (tmp_path / "picture.svg").stat().st_size > 2_000
