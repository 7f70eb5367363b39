"""The short form of ``make first-week``: programs that sleep, for longer on one kind of node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from day_one import first_day
from first_week import Daily, MadeUpKinds, Week, fewest_right, report
from slurm_cluster import Cluster, cluster_or_skip

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

TIMES_S = {
    "align": (3.0, 6.0), "relax": (3.5, 5.5), "solve": (5.0, 6.5), "train": (7.0, 5.5),
    "sample": (6.0, 4.5), "fold": (6.5, 4.0), "mesh": (8.0, 4.0), "sweep": (9.0, 3.5),
}  # fmt: skip
"""Of each program on A and on B: three are faster on A, five on B."""


@pytest.fixture
def two_kinds() -> Iterator[Cluster]:
    with cluster_or_skip(MadeUpKinds) as running, first_day(running, "enforce"):
        yield running


@pytest.mark.timeout(600)
def test_from_the_third_run_on_accounting_alone_sends_programs_to_their_faster_kind(
    two_kinds: Cluster,
) -> None:
    programs = [
        Daily(
            name,
            f'#!/bin/sh\n[ "$SLURMD_NODENAME" = a1 ] && exec sleep {on_a}\nexec sleep {on_b}\n',
            took_s={"full": on_a, "pair": on_b},
        )
        for name, (on_a, on_b) in TIMES_S.items()
    ]
    Week(two_kinds, two_kinds.work / "berth.toml", at_once=len(programs)).run(programs, days=3)
    assert fewest_right(programs) >= len(programs) - 1, report(programs)
