"""A place where a moved job failed at once is out for its program, until another run says no."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stored import NOW_S, STORED_DECISION

from berth.plugin.outcomes.failed_at_once import REMEMBERED_S, FailedAtOnce
from berth.plugin.store import Store
from berth.plugin.store.records import PlacedRun

MOVED, KEPT = "moved", "kept"
FAILED = PlacedRun(
    "tests", "7", "alice", "failed", decision=MOVED, elapsed_s=0.0, end_s=NOW_S, workload="iqtree",
    candidate="one-core", partition="one",
)  # fmt: skip
LATER = replace(FAILED, job_id="8", end_s=NOW_S + 60)
UNMOVED = replace(LATER, decision=KEPT, candidate=None, partition="auto")


@pytest.fixture
def decided(store: Store) -> Store:
    store.decisions.add([
        replace(STORED_DECISION, id=MOVED),
        replace(STORED_DECISION, id=KEPT, action="keep"),
    ])  # fmt: skip
    return store


def places(store: Store, *outcomes: PlacedRun, after_s: float = 0.0) -> list[str]:
    """Return the candidates that are out after these outcomes, taken in either order."""
    found = []
    for ordered in (outcomes, outcomes[::-1]):
        failed = FailedAtOnce()
        for outcome in ordered:
            failed.take([outcome], store.decisions)
        found.append(sorted(entry.candidate for entry in failed.entries(NOW_S + after_s)))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("outcomes", "out"),
    [
        ([FAILED], ["one-core"]),
        ([replace(FAILED, elapsed_s=9.0)], ["one-core"]),
        ([replace(FAILED, elapsed_s=600.0)], []),  # it worked until it failed
        ([replace(FAILED, state="cancelled")], []),
        ([replace(FAILED, decision=KEPT)], []),  # Berth did not move it
        ([replace(FAILED, workload=None)], []),
        ([replace(FAILED, candidate=None)], []),  # where it ran is not known
        ([FAILED, replace(LATER, state="completed")], []),
        ([FAILED, replace(LATER, state="completed", user="bob")], ["one-core"]),
        ([FAILED, replace(LATER, state="completed", candidate="big")], ["one-core"]),
        ([replace(FAILED, state="completed"), LATER], ["one-core"]),
        ([FAILED, UNMOVED], []),  # the program fails everywhere
        ([FAILED, replace(UNMOVED, workload="other")], ["one-core"]),
        ([FAILED, replace(LATER, candidate="tiny")], ["one-core", "tiny"]),
    ],
)
def test_places_where_a_program_failed_at_once(
    decided: Store, outcomes: list[PlacedRun], out: list[str]
) -> None:
    assert places(decided, *outcomes) == out


def test_it_is_forgotten_in_time(decided: Store) -> None:
    assert places(decided, FAILED, after_s=REMEMBERED_S - 1) == ["one-core"]
    assert places(decided, FAILED, after_s=REMEMBERED_S) == []


def test_the_entry_names_the_job_and_is_of_this_program_only(decided: Store) -> None:
    failed = FailedAtOnce()
    failed.take([FAILED, LATER], decided.decisions)
    (entry,) = failed.entries(NOW_S)
    assert (entry.user, entry.workload, entry.job) == ("alice", "iqtree", "8")
    assert entry.of_workload
    assert entry.reason == "failed here after 0 s"
