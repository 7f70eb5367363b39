"""The short form of ``make fresh-site``: the README's commands, and two programs that cross."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from fresh_site import FreshSite, learnt, piloted
from known_programs import write_own, write_text
from site_programs import Program
from site_report import report
from slurm_cluster import cluster_or_skip
from two_kinds import TwoKinds

CLEARLY = 1.5
"""Other tests run on the same cores: places that differ by less cannot be ordered by one run."""


@pytest.fixture(scope="module")
def site() -> Iterator[FreshSite]:
    with cluster_or_skip(TwoKinds) as running:
        yield FreshSite(running)


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.timeout(900)
def test_programs_are_sent_where_they_are_faster_after_calibration(site: FreshSite) -> None:
    said = site.install("--quick")
    assert "The filter can act on: full, pair" in said, said
    folder = site.work
    command = ("gzip", "-1", "-k", "-c", str(folder / "text"))
    one = Program("gzip", "gzip", command, 1, partial(write_text, copies=4))
    two = Program("own-omp", "gcc", (str(folder / "own"),), 2, write_own)
    found = piloted(site, [one, two], runs=3)
    learnt(site, found)
    lines = "\n".join(report(found))
    apart = [p for p in found if max(p.took_s.values()) > CLEARLY * min(p.took_s.values())]
    # Where the machine was too busy to tell them apart, a list of both is right.
    assert all(program.best in program.piloted.went.split(",") for program in apart), lines
    assert all(program.piloted.went and program.ran and program.learnt.went for program in found), (
        lines
    )
    assert all(program.piloted_on_a.went and program.pilot_cost for program in found), lines
    assert all(program.counted in {"used", "too-short"} for program in found), lines
