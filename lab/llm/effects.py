"""Learning how far each physical share is from the hardware's peak (``physics.TermEffects``).

Penalised least squares with Huber's loss on log time, by damped Gauss-Newton steps: a shared
value for each term, drawn to ``START``; each framework's own, drawn to nothing; and each
accelerator's and pair's, drawn there much harder, so that an unknown accelerator is predicted by
what frameworks do elsewhere.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import (
    OFFLINE,
    SATURATED,
    TERMS,
    TPOT,
    TTFT,
    TermEffects,
    combine,
    group_names,
)
from lab.llm.cases import Cases

START = {
    OFFLINE: {"weights": 0.3, "cache": 0.5, "decode": 0.5, "prefill": 0.5, "layers": -1.0,
              "expert_layers": -1.0, "steps": -2.0, "sequences": -2.0, "messages": 0.0,
              "bytes_sent": 0.0, "vocabulary": -2.0, "once": -1.0},
    SATURATED: {"weights": 0.3, "cache": 0.5, "decode": 0.5, "prefill": 0.5, "attention": 0.5,
                "activations": 0.5, "routing": 0.0, "layers": -1.0, "expert_layers": -1.0,
                "sequences": -2.0, "messages": 0.0, "bytes_sent": 0.0, "once": -1.0},
    TTFT: {"prefill": 0.7, "prefill_queue": -1.0, "attention": 0.5, "weights": 0.3,
           "layers": -2.0, "expert_layers": -2.0, "messages": 0.0, "bytes_sent": 0.5,
           "queue": -2.0, "prompt": -3.0, "once": 0.0},
    TPOT: {"weights": 0.3, "cache": 0.5, "decode": 0.7, "prefill_between": 0.7, "attention": 0.5,
           "activations": 0.5, "routing": 0.0, "layers": -2.0,
           "expert_layers": -2.0, "messages": 0.0, "bytes_sent": 0.5, "sequences": 0.0,
           "vocabulary": -2.0, "once": 0.0},
}  # fmt: skip
"""Where nothing was measured; terms that are not named start at ``UNLIKELY``."""
UNLIKELY = -4.0
_SHARED_PENALTY, _FRAMEWORK_PENALTY, _HARDWARE_PENALTY = 0.3, 1.0, 300.0
_SPREAD, _HUBER = 0.15, 0.3
_ROUNDS = 60


def start_of(head: str) -> Floats:
    """Return the initial value of each term, which holds where nothing was measured."""
    return np.array([START[head].get(name, UNLIKELY) for name in TERMS[head]])


def fit_effects(table: Cases) -> TermEffects:
    """Fit the effects on these rows."""
    terms, start = TERMS[table.head], start_of(table.head)
    keys = [group_names(a, f) for a, f in zip(table.accelerators, table.frameworks, strict=True)]
    names = list(dict.fromkeys(name for row in keys for name in row))
    frameworks = set(table.frameworks)
    index = {name: 1 + i for i, name in enumerate(names)}
    place = np.array([[0, *(index[name] for name in row)] for row in keys])
    # Rows of the same groups have the same columns.
    combinations, inverse = np.unique(place, axis=0, return_inverse=True)
    rows_of = [np.flatnonzero(inverse.ravel() == i) for i in range(len(combinations))]
    width = len(terms)
    centre = np.zeros((1 + len(names), width))
    centre[0] = start
    values = centre
    own = [_FRAMEWORK_PENALTY if name in frameworks else _HARDWARE_PENALTY for name in names]
    pull = np.repeat([_SHARED_PENALTY, *own], width)

    def predicted(at: Floats) -> tuple[Floats, Floats]:
        return combine(table.log_terms, at[place].sum(axis=1))

    def cost(at: Floats, log_time: Floats) -> float:
        off = np.abs(table.log_seconds - log_time)
        loss = np.where(off < _HUBER, 0.5 * off**2, _HUBER * (off - 0.5 * _HUBER))
        away = (at - centre).ravel()
        return float(loss.sum() / _SPREAD**2 + 0.5 * (pull * away * away).sum())

    log_time, shares = predicted(values)
    least, damping = cost(values, log_time), 0.1
    for _ in range(_ROUNDS):
        off = table.log_seconds - log_time
        trust = np.minimum(1.0, _HUBER / np.maximum(np.abs(off), 1e-9)) / _SPREAD**2
        bend = np.zeros((values.size, values.size))
        down = -pull * (values - centre).ravel()
        for groups, rows in zip(combinations, rows_of, strict=True):
            steep = shares[rows] * trust[rows, None]
            columns = (groups[:, None] * width + np.arange(width)).ravel()
            bend[np.ix_(columns, columns)] += np.tile(steep.T @ shares[rows], [len(groups)] * 2)
            down[columns] += np.tile(steep.T @ off[rows], len(groups))
        better = False
        for _ in range(8):
            damped = bend + np.diag(pull + damping * (np.diag(bend) + pull))
            step = np.clip(np.linalg.solve(damped, down), -1.5, 1.5).reshape(values.shape)
            tried, tried_shares = predicted(values + step)
            reached = cost(values + step, tried)
            if reached < least:
                better = True
                break
            damping *= 4
        if not better:
            break
        small = least - reached < 1e-5 * least
        values, log_time, shares, least = values + step, tried, tried_shares, reached
        damping = max(damping / 3, 1e-4)
        if small:
            break
    return TermEffects(
        head=table.head,
        terms=terms,
        shared=tuple(round(float(v), 6) for v in values[0]),
        groups={name: tuple(round(float(v), 6) for v in values[index[name]]) for name in names},
    )


def physics(table: Cases, effects: TermEffects) -> Floats:
    """Return log seconds of every row by calibrated physics alone."""
    pairs = list(zip(table.accelerators, table.frameworks, strict=True))
    own = {pair: effects.of(*pair) for pair in set(pairs)}
    return combine(table.log_terms, np.array([own[pair] for pair in pairs]))[0]
