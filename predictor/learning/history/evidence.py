"""Weights of past jobs for a new job, from a small neural network fitted on a public job trace.

For each pair of (new job, past job) there are features: whether the user is the same, how similar
the shapes (cores, time limit, memory) are, how recent the past job is, and how many running jobs of
the same shape have already run longer than the past job did. A network of one hidden layer turns
the features into a score and a softmax over all past jobs turns the scores into weights. The
predicted distribution is the past run times with these weights. The network's constants
(``weights.json``) were fitted on the first fifth of a public trace (docs/figures-history.md) and
are the same at all sites; they contain no site's data.
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
"""Number of features of each pair of (new job, past job)."""
KINDS = 4
"""Number of keys by which past jobs are stored: user; user and shape; account; shape of any
user."""
_WEIGHTS = Path(__file__).with_name("weights.json")
_NOT_COUNTED = -60.0
"""Score of a past job that another key already contributes; its weight is practically 0."""
OTHER_SCRIPT = -2.0
"""Added to the score of a past job of another batch script, where both scripts are known.

This and the next three penalties were set by hand: public traces with run times do not name
scripts, jobs or platforms.
"""
OTHER_SIMILAR = -1.0
"""Added to the score of a past job whose script arguments, numbers ignored, differ."""
OTHER_NAME = -1.0
"""Added to the score of a past job with another job name."""
OTHER_PLATFORM = -1.5
"""Added to the score of a past job that ran on another platform."""


@dataclass(frozen=True, slots=True)
class HiddenLayer:
    """A network with one hidden layer: ``scores = out @ relu(hidden @ x + hidden_bias)``."""

    hidden: Floats
    """[units, features]"""
    hidden_bias: Floats
    """[units, 1]"""
    out: Floats
    """[units]"""

    def scores(self, features: Floats) -> Floats:
        """Return the score of each past job, [past jobs], from its features, [features, past
        jobs]."""
        units = self.hidden @ features
        units += self.hidden_bias
        np.maximum(units, 0.0, out=units)
        scores: Floats = self.out @ units
        return scores


WAITED_S = 60.0
"""Queue wait in seconds after which a job is predicted by the network fitted for waiting jobs."""


@cache
def network(*, waited: bool) -> HiddenLayer:
    """Return the shipped network: for jobs at submission, or (``waited``) for jobs waiting in the
    queue."""
    read = json.loads(_WEIGHTS.read_text(encoding="utf-8"))["waited" if waited else "submitted"]
    hidden = np.ascontiguousarray(np.array(read["hidden"]).T)
    return HiddenLayer(hidden, np.array(read["hidden_bias"])[:, None], np.array(read["out"]))


@dataclass(frozen=True, slots=True)
class WeightedRuns:
    """Past run times sorted by time, with the weight of each in the prediction."""

    log_runs: Floats
    """[past times] natural logarithm of run times in seconds, ascending."""
    weights: Floats
    """[past times] weights; their sum is 1."""
    own_runs: int
    """Number of ended jobs of the same user."""


@dataclass(frozen=True, slots=True)
class PredictionTime:
    """The time of a prediction and the jobs of the same user and shape that run then."""

    time_s: float
    """Unix time in seconds."""
    elapsed_s: Floats
    """[running jobs of the same user and shape] seconds since their start."""


_SCALES = np.array([[1 / 60.0], [1 / 10.0]])
"""Scales of a past job's age: minutes since its end, units of 10 s between the submissions."""


def features_of(
    asked: AskedJob, now: PredictionTime, rings: Sequence[Ring | None]
) -> tuple[Floats, Floats]:
    """Return the features [features, times] and the log run times [times] that a prediction
    weights.

    The first columns are the past jobs; then comes the requested time limit and, where jobs of the
    same shape are running, 1.3 and 2.5 times the longest elapsed time.
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
    x: Floats, jobs: Floats, asked: AskedJob, now: PredictionTime, shape: tuple[float, float, float]
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


def _of_times(
    x: Floats, log_runs: Floats, now: PredictionTime, request: float, longest_s: float
) -> None:
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


def weigh(asked: AskedJob, now: PredictionTime, rings: Sequence[Ring | None]) -> WeightedRuns:
    """Return past run times and their weights in the prediction of a new job.

    ``rings``: past jobs by each of the ``KINDS`` keys, None where no job has that key.
    """
    features, log_runs = features_of(asked, now, rings)
    scores = network(waited=now.time_s - asked.submit_s > WAITED_S).scores(features)
    _identify(scores, asked, rings)
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    order = log_runs.argsort()
    own = rings[0]
    return WeightedRuns(log_runs[order], weights[order], 0 if own is None else own.seen)


def _identify(scores: Floats, asked: AskedJob, rings: Sequence[Ring | None]) -> None:
    """Lower the scores of past jobs of another script, name or platform than the new job.

    Past jobs of the same user count under that user's keys only.
    """
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
