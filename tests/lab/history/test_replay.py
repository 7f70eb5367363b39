"""A trace in order of time: nothing is known before it has ended."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from berth.predictor.learning.history import RunTimePredictor
from berth.predictor.learning.history.run_time import JobEvent
from lab.datasets.ricc import Trace
from lab.history.run_times import baselines, events, replay


def trace(submit_s: list[float], runtime_s: list[float], wait_s: float = 0.0) -> Trace:
    count = len(submit_s)
    ones = np.ones(count)
    return Trace(
        submit_s=np.array(submit_s),
        start_s=np.array(submit_s) + wait_s,
        runtime_s=np.array(runtime_s),
        cores=np.full(count, 4),
        request_s=ones * 3600.0,
        request_bytes=ones * 1e9,
        user=np.ones(count, int),
        account=np.ones(count, int),
        completed=np.ones(count, bool),
    )


def test_ends_come_before_submissions_of_the_same_moment() -> None:
    found = list(events(trace([0.0, 10.0], [10.0, 5.0])))
    assert found == [
        (JobEvent.ASKED, 0), (JobEvent.START, 0), (JobEvent.END, 0), (JobEvent.ASKED, 1),
        (JobEvent.START, 1), (JobEvent.END, 1),
    ]  # fmt: skip


def test_only_ended_jobs_are_known() -> None:
    jobs = trace([0.0, 5.0, 20.0], [10.0, 10.0, 10.0])
    simple = baselines(jobs)
    assert np.isnan(simple.median[:2]).all()
    assert simple.median[2] == 10.0
    assert np.isnan(simple.last_two[1])
    found = replay(jobs, RunTimePredictor())
    assert not found.trusted[:2].any()
    assert abs(found.mid_s[2] - 10.0) < 1e-6


def test_a_job_that_waited_is_predicted_anew_at_its_start() -> None:
    jobs = trace([0.0, 1.0], [100.0, 100.0], wait_s=200.0)
    found = replay(jobs, RunTimePredictor())
    assert found.renewed_s[1] == found.mid_s[1]  # nothing had ended by then either
    later = replay(trace([0.0, 1.0], [0.5, 0.5], wait_s=0.8), RunTimePredictor())
    assert later.renewed_s[1] < later.mid_s[1] * 1.001


def test_fitting_learns_that_the_own_past_tells(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from lab.history import fit

    count = 60
    jobs = trace([1e4 * n for n in range(count)], [60.0 if n % 4 else 600.0 for n in range(count)])
    known = fit.examples(jobs, np.arange(count) >= 20, at_start=False)
    assert known.features.shape[0] == 40
    constants = fit.fit(known, 0, epochs=1)
    path = fit.write(tmp_path, constants, constants)
    read = json.loads(path.read_text())
    assert np.array(read["submitted"]["hidden"]).shape == (23, fit.UNITS)
    assert np.isfinite(read["waited"]["out"]).all()
