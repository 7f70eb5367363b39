"""Measured rows as prompts and answers, and who may learn from which: one base, its adaptations.

The base never sees a group (a device, a family) that an adaptation names. An adaptation gets
``samples`` rows of its group, of as many models as can be, and is tested on rows of the group's
other models. Rows of two groups at once belong to neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from lab.ground.splits import few
from lab.ground.table import Flags, Places
from lab.latency.timm_runs import Runs


@dataclass(frozen=True, slots=True)
class Group:
    """What an adaptation is to: a device or a family."""

    column: str
    """``device`` or ``family``."""
    value: str

    def rows(self, runs: Runs) -> Flags:
        """[rows] those of the group."""
        return np.asarray(getattr(runs, self.column) == self.value)


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Places in the table of rows."""

    group: Group
    given: Places
    test: Places


@dataclass(frozen=True, slots=True)
class Division:
    """Who learns from what."""

    base: Places
    adaptations: tuple[Adaptation, ...]


def divide(
    runs: Runs, groups: Sequence[Group], *, samples: int, base: int, test: int, seed: int
) -> Division:
    """At most ``base`` rows for the base and ``test`` of each adaptation, drawn by ``seed``.

    Raises UsageError for a group without rows, or with too few models to give and to test.
    """
    held = [group.rows(runs) for group in groups]
    for group, rows in zip(groups, held, strict=True):
        if not rows.any():
            names = sorted(set(getattr(runs, group.column).tolist()))
            raise UsageError(
                f"no rows of {group.column} {group.value!r}", hint=f"known: {', '.join(names)}"
            )
    known = runs.has_graph
    taken = np.sum(held, axis=0) if held else np.zeros(len(runs), np.int64)
    draw = np.random.default_rng(seed)
    free = draw.permutation(np.flatnonzero(known & (taken == 0)))
    if not len(free):
        raise UsageError("no rows are left for the base", hint="name fewer adaptations")
    found = []
    for group, rows in zip(groups, held, strict=True):
        own = np.flatnonzero(rows & known & (taken == 1))
        dealt = few(runs.architecture, own, samples, seed)
        given, rest = dealt.train, dealt.test
        if len(given) < samples or not len(rest):
            many = len(set(runs.architecture[own].tolist()))
            raise UsageError(
                f"{group.column} {group.value!r} has {len(own)} rows of {many} models with a "
                f"graph: too few for {samples}"
            )
        found.append(Adaptation(group, given, np.sort(draw.permutation(rest)[:test])))
    return Division(np.sort(free[:base]), tuple(found))


def prompts(runs: Runs) -> list[str]:
    """[rows] the question that each row answers."""
    return [
        f"Inference time on {device}, {precision}, {layout}, torch {torch}, "
        f"{'compiled' if compiled else 'eager'}, batch {batch}, image {size}:"
        for device, precision, layout, torch, compiled, batch, size in zip(
            runs.device.tolist(),
            runs.precision.tolist(),
            runs.layout.tolist(),
            runs.torch.tolist(),
            runs.compiled.tolist(),
            runs.batch.tolist(),
            runs.image_size.tolist(),
            strict=True,
        )
    ]
