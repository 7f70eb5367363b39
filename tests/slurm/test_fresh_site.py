"""The short form of ``make fresh-site``: the README's commands, and two programs that cross."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fresh_site import FreshSite, Program, report, run, write_own, write_text
from slurm_cluster import ClusterUnavailable
from two_kinds import two_kinds


@pytest.fixture(scope="module")
def site() -> Iterator[FreshSite]:
    try:
        with two_kinds() as cluster:
            yield FreshSite(cluster)
    except ClusterUnavailable as missing:
        pytest.skip(f"NOT TESTED ON TWO KINDS OF NODES: {missing}")


@pytest.mark.slurm
@pytest.mark.timeout(900)
def test_programs_are_sent_where_they_are_faster_after_calibration(site: FreshSite) -> None:
    said = site.install("--quick")
    assert "The filter can act on: full, pair" in said
    folder = site.work
    one = Program("gzip", "gzip", ("gzip", "-1", "-k", "-c", str(folder / "text")), 1, write_text)
    two = Program("own-omp", "gcc", (str(folder / "own"),), 2, write_own)
    found = run(site, [one, two], runs=3)
    lines = "\n".join(report(found))
    assert not any(program.wrong for program in found), lines
    hits = [hit for program in found for hit in program.covered]
    assert hits.count(True) * 2 >= len(hits), lines
