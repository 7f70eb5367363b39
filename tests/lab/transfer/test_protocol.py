"""The protocol of new platforms: who is given, who is tested, and that it repeats."""

from __future__ import annotations

import numpy as np
import pytest

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.transfer.cases import Cases, Codes
from berth.predictor.families.graph.transfer.kernel import TransferKernel
from lab.ground.figures import curve, figures
from lab.transfer import evaluate_transfer
from lab.transfer.transfer_cases import Measured
from lab.transfer.transfer_methods import METHODS, Guess, Method
from lab.transfer.transfer_report import few_shot_report

SAMPLES = (0, 1, 3)
CHEAP = tuple(one for one in METHODS if one.name in ("process", "roofline"))


@pytest.fixture(scope="module")
def found(tiny_table: Measured) -> evaluate_transfer.FewShot:
    return evaluate_transfer.evaluate_few_shot(tiny_table, methods=CHEAP, samples=SAMPLES, most=6)


def test_nothing_of_the_new_device_or_of_a_held_out_model_is_learnt_from(
    tiny_table: Measured,
) -> None:
    calls: list[tuple[Measured, Cases]] = []

    def spy(known: Measured, asked: Cases, kernel: TransferKernel) -> Guess:
        calls.append((known, asked))

        def guess(samples: Codes, residual: Floats) -> Floats:
            del samples, residual
            return np.zeros(len(asked))

        return guess

    method = Method("process", "spy", spy)
    evaluate_transfer.evaluate_few_shot(tiny_table, methods=[method], samples=SAMPLES, most=4)
    everything = set(tiny_table.architecture.tolist())
    for known, asked in calls:
        assert not set(known.cases.device.tolist()) & set(asked.device.tolist())
    fewer = [set(known.architecture.tolist()) for known, _ in calls]
    assert sum(one != everything for one in fewer) == evaluate_transfer.THIRDS.count * len(
        np.unique(tiny_table.device)
    )


def test_architectures_that_were_given_are_in_no_test(tiny_table: Measured) -> None:
    new = tiny_table[np.flatnonzero(tiny_table.device == "5090")]
    everything = np.arange(len(new))
    seen: list[set[str]] = []

    def guess(samples: Codes, residual: Floats) -> Floats:
        del residual
        seen.append(set(new.architecture[samples].tolist()))
        return np.zeros(len(new))

    part = evaluate_transfer._Part(everything, everything, {"spy": guess})
    what = (evaluate_transfer.SEEN, "spy")
    rows, _ = evaluate_transfer._predicted(new, [part], what, 5, seed=(0, 0))
    assert seen[0]
    assert not seen[0] & set(new.architecture[rows].tolist())


@pytest.mark.slow
def test_the_same_seed_gives_the_same_figures(
    tiny_table: Measured, found: evaluate_transfer.FewShot
) -> None:
    again = evaluate_transfer.evaluate_few_shot(tiny_table, methods=CHEAP, samples=SAMPLES, most=6)
    assert repr(again) == repr(found)


def test_samples_help_and_every_device_and_way_is_there(found: evaluate_transfer.FewShot) -> None:
    what = (evaluate_transfer.SEEN, "process")
    curve = found.mean(what, gpu=True)
    assert curve is not None
    assert curve.points[-1].mean.mean_error < curve.points[0].mean.mean_error
    assert {one.device for one in found.curves} == {"3090", "5090", "i7_12700h"}
    assert {one.method for one in found.curves} == {"process", "roofline"}
    assert all(p.low.within_10 <= p.mean.within_10 <= p.high.within_10 for p in curve.points)


def test_more_samples_than_models_are_refused(tiny_table: Measured) -> None:
    with pytest.raises(UsageError, match="leave no other model"):
        evaluate_transfer.evaluate_few_shot(tiny_table, methods=CHEAP, samples=(0, 40), most=4)


def test_a_report_has_every_method(found: evaluate_transfer.FewShot) -> None:
    one = figures(np.zeros(2), np.zeros(2), np.array(["a", "b"]))
    text = few_shot_report(found, {"drawn": curve((0,), 1, lambda *_: one)}).markdown()
    assert "## GPUs" in text
    assert "| roofline |" in text
