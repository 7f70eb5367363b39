"""Training on several GPUs: what is learnt of made-up steps, and what is shipped."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from berth.pilot.errors import BerthError
from berth.predictor.families.training_step.training_step_family import shipped_data_parallel
from lab.__main__ import lab
from lab.datasets.gavel import Scaled
from lab.steps.data_parallel import (
    LEARNT,
    LINKS,
    PARAMETERS,
    coverage,
    fit,
    mean_error,
    measured_steps,
    other_link_width,
    steps,
    width,
)


def made(overhead: float, seen: float) -> list[Scaled]:
    """Steps that follow the rule, but for a thousandth by model."""
    found = []
    for device in LEARNT:
        for place, (model, size) in enumerate(PARAMETERS.items()):
            for one_s in (0.02, 0.1, 0.5):
                for gpus in (1, 2, 4, 8):
                    ring = 2 * (gpus - 1) / gpus * 4 * size / LINKS[device]
                    longer = (1 + overhead) * one_s + seen * ring if gpus > 1 else one_s
                    rate = gpus / (longer * (1 + 0.001 * place * (gpus > 1)))
                    found.append(Scaled(device, f"{model} {one_s}", model, gpus, rate))
    return found


def test_overhead_and_the_part_of_the_ring_that_is_seen_are_found() -> None:
    rows = steps(made(0.05, 3.0))
    learnt = fit(rows)
    assert (learnt.overhead, learnt.seen) == pytest.approx((0.05, 3.0), rel=0.05)
    assert mean_error(rows, lambda one: one.model) < 0.01
    assert coverage(rows, lambda one: one.device) == 1.0


def test_jobs_that_were_not_measured_on_one_gpu_are_left_out() -> None:
    rows = steps(one for one in made(0.05, 3.0) if one.gpus != 1)
    assert rows == []


def test_other_models_and_devices_are_left_out() -> None:
    strange = [
        Scaled("k80", "a", "A3C", 1, 2.0), Scaled("k80", "a", "A3C", 2, 4.0),
        Scaled("p100_unconsolidated", "b", "LM", 1, 2.0),
        Scaled("p100_unconsolidated", "b", "LM", 2, 4.0),
    ]  # fmt: skip
    assert steps(strange) == []


def test_what_is_shipped_is_what_the_data_say() -> None:
    try:
        rows, aside = measured_steps()
    except BerthError as error:
        pytest.skip(error.message)
    learnt, file = fit(rows), shipped_data_parallel()
    assert (learnt.overhead, learnt.seen) == pytest.approx((file.overhead, file.seen), abs=0.002)
    assert width(rows) == pytest.approx(file.log_width, rel=0.01)
    assert other_link_width(aside, learnt) == pytest.approx(file.other_link_log_width, rel=0.01)
    assert (len(rows), max(one.gpus for one in rows)) == (file.rows, file.most)
    done = CliRunner().invoke(lab, ["data-parallel"])
    assert "a new device" in done.output
