"""Doctor says whether nodes tell what jobs used, and what most of them cannot read."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from berth_daemon import Harbour, harbour

from berth.pilot.usage.record import JOB_END, Usage
from berth.plugin.doctor.usage import check_usage
from berth.plugin.findings import Finding, Status
from berth.plugin.site.load import load_site

GONE = "cgroup: the job's group is gone"


@pytest.fixture
def site() -> Iterator[Harbour]:
    with harbour() as made:
        yield made


def findings(site: Harbour, *lacks: str, age_s: float = 60.0) -> list[Finding]:
    received_s = time.time() - age_s
    store = site.store()
    store.usages.put(
        [
            Usage("tests", str(job), JOB_END, node="n1", received_s=received_s, lacks=text)
            for job, text in enumerate(lacks)
        ]
    )
    store.close()
    return list(check_usage(load_site(site.site_file)))


def test_nothing_ever_told_is_no_fault(site: Harbour) -> None:
    (found,) = findings(site)
    assert (found.status, found.text) == (
        Status.OK,
        "no node tells what jobs used (docs/usage.md says how they can)",
    )


def test_what_arrives_whole_is_well(site: Harbour) -> None:
    (found,) = findings(site, "", "", GONE)
    assert found.status is Status.OK
    assert "what 3 jobs, or parts of them, used" in found.text


def test_what_most_lack_has_its_remedy(site: Harbour) -> None:
    _, found = findings(site, "", GONE, f"{GONE}; nvml: no permission")
    assert found.status is Status.WARN
    assert found.text == f"2 of them lack something: {GONE}"
    assert "RunInJob" in str(found.advice)


def test_nodes_that_fell_silent_are_said(site: Harbour) -> None:
    (found,) = findings(site, "", age_s=3 * 86_400.0)
    assert found.status is Status.WARN
    assert "berth-collect.timer" in str(found.advice)
