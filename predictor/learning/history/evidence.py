"""How much each past job tells of a new one: weights by a small network, learnt from a trace.

For each pair of (new job, past job) there are features: whose job it was, how alike their shapes
are, how recent it is, how many jobs of the same shape that run now have outlived its run time. A
network of one hidden layer turns them into a score; a softmax over all past jobs gives weights:
the predicted distribution is the past run times with these weights. The network's constants
(``weights.json``) were fitted on the first fifth of a public trace (docs/figures-history.md) and
hold for all sites; nothing of a site is in them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from berth.predictor.learning.history.rings import (
    END,
    FAILED,
    LOG_BYTES,
    LOG_CORES,
    LOG_RUN,
    NAME,
    PLATFORM,
    SCRIPT,
    SIMILAR,
    SUBMIT,
    USER,
    AskedJob,
    Floats,
    Ring,
    code,
    shape_of,
)  # fmt: skip

FEATURES = 23
KINDS = 4
"""Past jobs of the same user; user and shape; account; shape of any user."""
_WEIGHTS = Path(__file__).with_name("weights.json")
_NOT_COUNTED = -60.0
"""Score of a past job that stands under another key already."""
OTHER_SCRIPT = -2.0
OTHER_SIMILAR = -1.0
OTHER_NAME = -1.0
OTHER_PLATFORM = -1.5
"""Added to the score of a past job of another script, other arguments (but for numbers), name or
platform where both are known: set by hand, as public traces with run times name none."""


@dataclass(frozen=True, slots=True)
class Network:
    """``scores = out @ relu(hidden @ x + hidden_bias)``."""

    hidden: Floats
    """[units, features]"""
    hidden_bias: Floats
    """[units, 1]"""
    out: Floats
    """[units]"""

    def scores(self, features: Floats) -> Floats:
        """Return [past jobs] from [features, past jobs]."""
        units = self.hidden @ features
        units += self.hidden_bias
        np.maximum(units, 0.0, out=units)
        scores: Floats = self.out @ units
        return scores


WAITED_S = 60.0
"""A job that waited for longer is asked about anew, by the network that was fitted for it."""


@cache
def network(*, waited: bool) -> Network:
    """Return the shipped network: for a job at its submission, or for one that has waited."""
    read = json.loads(_WEIGHTS.read_text(encoding="utf-8"))["waited" if waited else "submitted"]
    hidden = np.ascontiguousarray(np.array(read["hidden"]).T)
    return Network(hidden, np.array(read["hidden_bias"])[:, None], np.array(read["out"]))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Past run times and how much each tells, sorted by time."""

    log_runs: Floats
    weights: Floats
    """Sum to 1."""
    own_runs: int
    """Ended jobs of the same user among them."""


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of a question."""

    time_s: float
    elapsed_s: Floats
    """[running jobs of the same user and shape]"""


_SCALES = np.array([[1 / 60.0], [1 / 10.0]])


def features_of(asked: AskedJob, now: Now, rings: Sequence[Ring | None]) -> tuple[Floats, Floats]:
    """Return [features, past jobs] and [past jobs] of ``LOG_RUN``; after the past jobs come the
    request and, where jobs of the same shape run, two multiples of the longest one's elapsed time.
    """
    remembered = [(kind, ring, len(ring)) for kind, ring in enumerate(rings) if ring is not None]
    past_jobs = sum(count for _, _, count in remembered)
    shape = shape_of(asked)
    running = len(now.elapsed_s)
    longest_s = float(now.elapsed_s.max()) if running else 0.0
    added = [shape[1]]
    if running:
        added += [math.log(1.3 * longest_s), math.log(2.5 * longest_s)]
    x = np.zeros((FEATURES, past_jobs + len(added)))
    log_runs = np.empty(past_jobs + len(added))
    log_runs[past_jobs:] = added
    if past_jobs:
        jobs = np.concatenate([ring.columns for _, ring, _ in remembered], axis=1)
        log_runs[:past_jobs] = jobs[LOG_RUN]
        _of_past(x[:, :past_jobs], jobs, asked, now, shape)
        begin = 0
        for kind, ring, count in remembered:
            end = begin + count
            x[kind, begin:end] = 1.0
            x[10, begin:end] = ring.log_ranks
            x[22, begin:end] = math.log1p(count) / 4.0
            begin = end
    x[0, past_jobs:] = -1.0
    for place in range(1, len(added) + 1):
        x[place, past_jobs + place - 1] = -1.0
    own = rings[1]
    x[22, past_jobs:] = 0.0 if own is None else math.log1p(len(own)) / 4.0
    _of_times(x, log_runs, now, shape[1], longest_s)
    return x, log_runs


def _of_past(
    x: Floats, jobs: Floats, asked: AskedJob, now: Now, shape: tuple[float, float, float]
) -> None:
    apart = np.abs(jobs[LOG_CORES : LOG_BYTES + 1] - np.array(shape)[:, None])
    x[4:7] = apart < 1e-9
    x[7] = x[4:7].min(axis=0)
    x[8:10] = np.minimum(apart[:2], 5.0) * 0.5
    ages = np.abs(np.array([[now.time_s], [asked.submit_s]]) - jobs[END : SUBMIT + 1])
    ages *= _SCALES
    np.log1p(ages, out=ages)
    np.multiply(ages, 0.1, out=x[11:13])
    x[13] = jobs[FAILED]
    x[16] = jobs[LOG_RUN] >= shape[1] - 0.02
    x[21] = math.log1p(abs(now.time_s - asked.submit_s)) / 12.0


def _of_times(x: Floats, log_runs: Floats, now: Now, request: float, longest_s: float) -> None:
    running = len(now.elapsed_s)
    np.multiply(log_runs, 0.1, out=x[17])
    np.multiply(log_runs - request, 0.2, out=x[18])
    if running:
        x[19] = math.log1p(running) / 4.0
        times = np.exp(log_runs)
        outlived = running - np.searchsorted(np.sort(now.elapsed_s), times, side="right")
        x[14] = np.log1p(outlived) / 2.0
        x[15] = outlived / (running + 1.0)
        x[20] = np.log1p(longest_s / times) / 3.0


def weigh(asked: AskedJob, now: Now, rings: Sequence[Ring | None]) -> Evidence:
    """Weigh past jobs for a new one; ``rings``: of the ``KINDS``, None where nothing is remembered
    under that key."""
    features, log_runs = features_of(asked, now, rings)
    scores = network(waited=now.time_s - asked.submit_s > WAITED_S).scores(features)
    _identify(scores, asked, rings)
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    order = log_runs.argsort()
    own = rings[0]
    return Evidence(log_runs[order], weights[order], 0 if own is None else own.seen)


def _identify(scores: Floats, asked: AskedJob, rings: Sequence[Ring | None]) -> None:
    """Add what the trace could not teach: names and scripts; and let each past job count under one
    key."""
    begin, user = 0, code(asked.user)
    known = [
        (column, code(text), penalty)
        for column, text, penalty in (
            (SCRIPT, asked.script, OTHER_SCRIPT),
            (SIMILAR, asked.similar, OTHER_SIMILAR),
            (NAME, asked.name, OTHER_NAME),
            (PLATFORM, asked.platform, OTHER_PLATFORM),
        )
        if text
    ]
    for kind, ring in enumerate(rings):
        if ring is None:
            continue
        jobs = ring.columns
        ring_scores = scores[begin : begin + len(ring)]
        if kind >= 2:
            ring_scores[jobs[USER] == user] = _NOT_COUNTED
        for column, wanted, penalty in known:
            codes = jobs[column]
            ring_scores[(codes != wanted) & (codes != 0.0)] += penalty
        begin += len(ring)
