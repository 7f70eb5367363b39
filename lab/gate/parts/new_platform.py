"""Latency of models on a platform never trained on, with 0 and 32 of its runs."""

from __future__ import annotations

from lab.gate.part import Work
from lab.transfer.evaluate_transfer import SEEN, UNSEEN, FewShot, evaluate_few_shot
from lab.transfer.new_machine import evaluate_new_machine
from lab.transfer.transfer_cases import timm_cases
from lab.transfer.transfer_methods import METHODS

SAMPLES = (0, 32)
DRAWN = "drawn"


def figures(work: Work) -> dict[str, float]:
    """Return share within 10 % and mean error, of the shipped process."""
    found = evaluate_few_shot(
        timm_cases(), seed=work.seed, methods=METHODS[:1], samples=SAMPLES, advance=work.advance
    )
    made: dict[str, float] = {}
    made |= _of_curve(found, True, SEEN, "gpu.seen")
    made |= _of_curve(found, True, UNSEEN, "gpu.unseen")
    made |= _of_curve(found, False, SEEN, "cpu.seen")
    del made["cpu.seen.0.within"]  # hardly a row: not in the documentation
    own = {point.samples: point.mean for point in evaluate_new_machine(seed=work.seed)[DRAWN]}
    made["own.0.mape"] = own[0].mean_error
    made["own.32.mape"] = own[32].mean_error
    return made


def _of_curve(found: FewShot, gpu: bool, models: str, name: str) -> dict[str, float]:
    curve = found.mean((models, METHODS[0].name), gpu=gpu)
    if curve is None:
        return {}
    return {
        f"{name}.{point.samples}.{figure}": value
        for point in curve.points
        for figure, value in (
            ("within", point.mean.within_10),
            ("mape", point.mean.mean_error),
        )
    }
