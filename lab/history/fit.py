"""Fits the network that weighs past jobs, on the first jobs of a trace.

The loss is the negative logarithm of the mixture's density of the real log time, by a wide and a
narrow Laplace kernel; jobs count partly alike and partly by user, so that one heavy user does not
set the weights. Past jobs are dropped at random, as sites with shorter histories have fewer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from berth.pilot.documents import write_text
from berth.predictor.learning.history import AskedJob, RunTimePredictor
from berth.predictor.learning.history.evidence import FEATURES, features_of
from berth.predictor.learning.history.rings import USER, Ring, code
from berth.predictor.learning.history.run_time import JobEvent
from lab.datasets.ricc import Trace
from lab.ground.table import Flags, Floats, Places
from lab.history.run_times import asked_jobs, ended_job, events

UNITS = 16
EPOCHS = 8
BATCH = 128
RATE = 4e-3
DROPPED = 0.3
NARROW = 0.2
"""Scale of the narrow kernel; that of the wide one is 1."""
BY_USER = 0.7
"""Share of the weight that is given out by user."""
OF_ALL, OF_USER = 0.2, 250
"""Sampled: this share of all jobs, and up to so many of each user."""
_FLOOR = 0.01


@dataclass(frozen=True, slots=True)
class Examples:
    """Jobs with what was known of them, padded to the most past jobs."""

    features: Tensor
    """[jobs, past, features]"""
    log_runs: Tensor
    """[jobs, past]"""
    real: Tensor
    """[jobs] log of the run time."""
    there: Tensor
    """[jobs, past] False: padding, or a past job that stands under another key already."""
    weights: Tensor
    """[jobs]"""


def sampled(trace: Trace, seed: int) -> Flags:
    """Return [jobs] which ones are learnt from."""
    generator = np.random.default_rng(seed)
    chosen: Flags = generator.random(len(trace)) < OF_ALL
    for user in np.unique(trace.user):
        own = np.flatnonzero(trace.user == user)
        chosen[own if len(own) <= OF_USER else generator.choice(own, OF_USER, replace=False)] = True
    return chosen


def examples(trace: Trace, chosen: Flags, *, at_start: bool) -> Examples:
    """Return examples as of the submission of each, or of its start."""
    known = list(_known(trace, chosen, at_start=at_start))
    past = max(len(log_runs) for _, _, log_runs, _ in known)
    x = np.zeros((len(known), past, FEATURES), np.float32)
    y = np.zeros((len(known), past), np.float32)
    there = np.zeros((len(known), past), bool)
    for number, (_, features, log_runs, counted) in enumerate(known):
        x[number, : len(log_runs)] = features.T
        y[number, : len(log_runs)] = log_runs
        there[number, : len(log_runs)] = counted
    rows = np.array([job for job, *_ in known])
    real = np.log(trace.runtime_s[rows]).astype(np.float32)
    return Examples(
        torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(real), torch.from_numpy(there),
        torch.from_numpy(_weights(trace, rows).astype(np.float32)),
    )  # fmt: skip


def _weights(trace: Trace, rows: Places) -> Floats:
    """Return [rows] 1 on average."""
    users = trace.user[rows]
    in_all, in_rows = np.bincount(trace.user), np.bincount(users)
    by_job = in_all[users] / in_rows[users]
    by_user = 1.0 / in_rows[users]
    mixed = (1 - BY_USER) * by_job / by_job.sum() + BY_USER * by_user / by_user.sum()
    return np.asarray(mixed * len(rows))


def _known(
    trace: Trace, chosen: Flags, *, at_start: bool
) -> Iterator[tuple[int, Floats, Floats, Flags]]:
    predictor, asked = RunTimePredictor(), asked_jobs(trace)
    when = JobEvent.START if at_start else JobEvent.ASKED
    for event, job in events(trace):
        one = asked[job]
        if event is when and chosen[job]:
            moment_s = float(trace.start_s[job]) if at_start else one.submit_s
            now, rings = predictor.known(one, moment_s)
            features, log_runs = features_of(one, now, rings)
            yield job, features, log_runs, counted(one, rings, len(log_runs))
        if event is JobEvent.END:
            predictor.ended(str(job), ended_job(trace, one, job))
        elif event is JobEvent.START:
            predictor.started(str(job), one, float(trace.start_s[job]))


def counted(asked: AskedJob, rings: Sequence[Ring | None], count: int) -> Flags:
    """Return [past] False: an own job that is remembered for the account or the shape, too."""
    found = np.ones(count, bool)
    begin = 0
    for kind, ring in enumerate(rings):
        if ring is not None:
            if kind >= 2:
                found[begin : begin + len(ring)] = ring.columns[USER] != code(asked.user)
            begin += len(ring)
    return found


def fit(known: Examples, seed: int, *, epochs: int = EPOCHS) -> dict[str, list[object]]:
    """Return the network's constants as ``weights.json`` has them."""
    torch.manual_seed(seed)
    hidden, out = nn.Linear(FEATURES, UNITS), nn.Linear(UNITS, 1)
    optimiser = torch.optim.Adam([*hidden.parameters(), *out.parameters()], RATE, weight_decay=1e-5)
    jobs = len(known.real)
    steps = epochs * -(-jobs // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / (steps + 1))
    for _ in range(epochs):
        for rows in torch.randperm(jobs).split(BATCH):
            there = known.there[rows]
            there = there & (torch.rand(there.shape) > DROPPED)
            scores = out(torch.relu(hidden(known.features[rows])))[..., 0]
            weights = torch.softmax(scores.masked_fill(~there, -1e4), 1)
            apart = (known.log_runs[rows] - known.real[rows, None]).abs()
            kernel = 0.25 * torch.exp(-apart) + 0.25 / NARROW * torch.exp(-apart / NARROW)
            loss = -torch.log((weights * kernel).sum(1) + _FLOOR)
            optimiser.zero_grad()
            (loss * known.weights[rows]).mean().backward()
            optimiser.step()
            schedule.step()
    return {
        "hidden": _rounded(hidden.weight.T),
        "hidden_bias": _rounded(hidden.bias),
        "out": _rounded(out.weight[0]),
    }


def _rounded(values: Tensor) -> list[object]:
    return list(np.round(values.detach().numpy().astype(float), 4).tolist())


def write(
    folder: Path, submitted: dict[str, list[object]], waited: dict[str, list[object]]
) -> Path:
    """Write ``weights.json`` into ``folder`` and return its path."""
    path = folder / "weights.json"
    document = {
        "schema": "berth.history-weights/1",
        "fitted_on": "RICC-2010-2, jobs 1 to 50,000 in order of submission",
        "submitted": submitted,
        "waited": waited,
    }
    write_text(path, json.dumps(document) + "\n")
    return path
