"""What became of jobs comes into the store, whatever the scheduler does meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from stored import NOW_S, PLACED
from views import site_of

from berth.pilot.errors import SchedulerError, StoreError, ToolMissing
from berth.pilot.run import Run
from berth.plugin.daemon.outcomes import (
    LAG_S,
    LONGEST_S,
    SETTLES_S,
    WINDOW_S,
    follow_outcomes,
)
from berth.plugin.daemon.threads import Periodic
from berth.plugin.outcomes.failed_at_once import FailedAtOnce
from berth.plugin.scheduler import ClusterFacts, EndedJobs, NodeFacts, unmoved_by_filter
from berth.plugin.store import Store

DAY_S = 86_400.0


ENDED = Run(
    cluster="",
    job_id="7",
    state="completed",
    partition="gpu",
    elapsed_s=66.0,
    user="alice",
    decision=PLACED.id,
    submit_s=NOW_S - 200,
    start_s=NOW_S - 200,
    end_s=NOW_S - 134,
    nodes=1,
    cores=8,
    gpus=1,
)


@dataclass
class FakeScheduler:
    """Tells what it is given, remembers what it was asked, fails with ``error``."""

    jobs: list[Run] = field(default_factory=list)
    error: Exception | None = None
    problem: str | None = None
    asked: list[tuple[float, float]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    name: str = "slurm"
    stamps_are_private: bool = True
    nodes: tuple[NodeFacts, ...] = ()
    unmoved: Mapping[str, str] = field(default_factory=dict)

    def read(self, *, full: bool = True) -> ClusterFacts:
        assert not full
        return ClusterFacts("c", "v", 0.0, {}, self.nodes)

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        self.asked.append((since_s, until_s))
        if self.error is not None:
            raise self.error
        found = [
            job
            for job in self.jobs
            if since_s <= (job.end_s or 0) <= until_s and known.get(job.job_id) != job.end_s
        ]
        self.told += [job.job_id for job in found]
        return EndedJobs(tuple(found), self.problem, self.unmoved)


class Following:
    """A follower with a clock that the test moves."""

    def __init__(self, store: Store, *jobs: Run) -> None:
        self.now_s = NOW_S
        self.scheduler = FakeScheduler(list(jobs))
        self.failed = FailedAtOnce()
        self.step = follow_outcomes(
            store,
            site_of(),
            self.scheduler,  # type: ignore[arg-type]
            self.failed,
            clock=lambda: self.now_s,
        )


@pytest.fixture
def decided(store: Store) -> Store:
    """A store that holds the decision."""
    store.decisions.add([PLACED])
    return store


def test_a_decision_that_the_filter_did_not_carry_out_is_counted_as_left_alone(
    decided: Store,
) -> None:
    following = Following(decided, ENDED)
    text = f"berth/1 id={PLACED.id} action=keep code=site-rule to=gpu"
    following.scheduler.unmoved = unmoved_by_filter(text)
    following.step()
    assert decided.decisions.answered(0.0, 10) == {("keep", "site-rule", PLACED.ground or ""): 1}
    assert unmoved_by_filter(text.replace("site-rule", "moved-by-hand")) == {}


def test_a_job_that_ended_is_stored_beside_its_prediction(decided: Store) -> None:
    Following(decided, ENDED).step()
    found = decided.outcomes.of_job("7", cluster="tests")
    assert found is not None
    assert decided.outcomes.of_decision(PLACED.id) == [found]
    assert (found.state, found.elapsed_s, found.user) == ("completed", 66.0, "alice")
    assert (found.candidate, found.platform) == ("gpu", "platform-of-gpu")
    assert (found.predicted_low_s, found.predicted_s, found.predicted_high_s) == (30, 60, 120)
    assert (found.workload, found.bundle, found.nodes, found.gpus) == ("stream", "bundle-1", 1, 1)


def test_a_place_where_a_job_failed_at_once_is_ruled_out_also_after_a_restart(
    decided: Store,
) -> None:
    for following in (
        Following(decided, replace(ENDED, state="failed", elapsed_s=0.0)),
        Following(decided),
    ):
        following.step()
        (entry,) = following.failed.entries(NOW_S)
        assert (entry.candidate, entry.user, entry.workload) == ("gpu", "alice", "stream")


def test_its_nodes_say_on_which_candidate_of_an_auto_queue_a_job_ran(decided: Store) -> None:
    gpu = NodeFacts("g1", ("gpu", "auto"), True, 8, 8, 2**30, gpus={"gpu:a100": 4})
    left = replace(ENDED, partition="auto", node_list="g1", cpu_time_s=99.0, gpu_utilisation=0.5)
    for nodes, candidate in (((), None), ((gpu,), "gpu")):
        following = Following(decided, left)
        following.scheduler.nodes = nodes
        following.step()
        (found,) = decided.outcomes.of_decision(PLACED.id)
        assert found.candidate == candidate
    assert (found.node_list, found.cpu_time_s, found.gpu_utilisation) == ("g1", 99.0, 0.5)


def test_reading_again_changes_nothing_and_asks_little(decided: Store) -> None:
    following = Following(decided, ENDED, replace(ENDED, job_id="8", decision=None))
    for _ in range(3):
        following.step()
        following.now_s += 60
    assert following.scheduler.told == ["7", "8"]  # without a stamp: seen, not stored
    Following(decided, ENDED).step()  # another daemon, or this one after a restart
    assert len(list(decided.outcomes.between(0, NOW_S))) == 1


def test_what_accounting_tells_by_and_by_is_put_together(decided: Store) -> None:
    """slurmdbd has the end of a job before its user; its memory may come last of all."""
    last = replace(ENDED, end_s=NOW_S - 1)
    following = Following(decided, replace(last, user="", decision=PLACED.id))
    following.step()
    assert decided.outcomes.of_job("7") is None
    for more in ({}, {"peak_bytes": 2**30}):
        following.now_s += 10
        following.scheduler.jobs = [replace(last, **more)]  # type: ignore[arg-type]
        following.step()
    (found,) = decided.outcomes.of_decision(PLACED.id)
    assert found.peak_bytes == 2**30
    following.now_s += SETTLES_S
    following.step()
    told = len(following.scheduler.told)
    following.step()
    assert len(following.scheduler.told) == told


def test_a_requeued_job_is_replaced_by_its_second_end(decided: Store) -> None:
    following = Following(decided, replace(ENDED, state="failed"))
    following.step()
    again = replace(ENDED, elapsed_s=70.0, submit_s=NOW_S + 5000, end_s=NOW_S + 5090)
    following.scheduler.jobs = [again]
    following.now_s += 5100
    following.step()
    (found,) = decided.outcomes.of_decision(PLACED.id)
    assert (found.state, found.elapsed_s) == ("completed", 70.0)


@pytest.mark.parametrize(
    "error",
    [
        ToolMissing("sacct", needed_for="x", hint="y"),
        SchedulerError("sacct did not answer within 60 s"),
        SchedulerError("slurmdbd: Connection refused"),
        RecursionError("deep"),
    ],
    ids=["absent", "slow", "down", "crash"],
)
def test_an_accounting_that_fails_for_a_day_loses_nothing_and_is_said_once(
    decided: Store, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    following = Following(decided)
    thread = Periodic("outcome reader", 60, following.step)
    thread.once()
    following.scheduler.error = error
    with caplog.at_level(logging.WARNING):
        for _ in range(24):
            following.now_s += 3600
            thread.once()
    said = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 1
    assert thread.problem is not None
    following.scheduler.error = None
    following.scheduler.jobs = [
        replace(ENDED, job_id=str(n), end_s=NOW_S + n * 3600.0) for n in range(24)
    ]
    thread.once()
    assert thread.problem is None
    assert len(decided.outcomes.of_decision(PLACED.id)) == 24


def test_what_can_be_read_is_stored_beside_what_cannot(decided: Store) -> None:
    following = Following(decided, ENDED)
    following.scheduler.problem = "sacct answered something unreadable: 'x'"
    for _ in range(2):
        with pytest.raises(SchedulerError, match="unreadable"):
            following.step()
        following.now_s += 60
    assert decided.outcomes.of_job("7") is not None
    assert following.scheduler.told == ["7"]


def test_a_store_that_is_away_is_tried_again(
    decided: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = Following(decided, ENDED)

    def away(_records: object) -> None:
        raise StoreError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(decided.outcomes, "put", away)
        with pytest.raises(StoreError):
            following.step()
    following.now_s += 7200
    following.step()
    assert decided.outcomes.of_job("7") is not None


def test_a_decision_that_comes_late_finds_its_job(store: Store) -> None:
    """It was on the spool, or in a killed daemon's journal."""
    store.decisions.add([replace(PLACED, id="other", time_s=NOW_S - 300)])
    following = Following(store, ENDED)
    following.step()
    assert store.outcomes.of_job("7") is None
    store.decisions.add([PLACED])
    following.now_s += LAG_S / 2
    following.step()
    assert store.outcomes.of_job("7") is not None


def test_the_past_is_read_in_pieces_from_the_first_decision_on(store: Store) -> None:
    store.decisions.add([replace(PLACED, time_s=NOW_S - DAY_S)])
    following = Following(store)
    following.step()
    asked = following.scheduler.asked
    assert asked[0][0] == NOW_S - DAY_S - LAG_S
    assert asked[-1][1] == NOW_S
    assert all(until_s - since_s <= WINDOW_S + LAG_S for since_s, until_s in asked)
    assert all(b[0] <= a[1] for a, b in pairwise(asked))  # no gap


def test_a_piece_that_was_read_is_not_read_again_after_a_failure(store: Store) -> None:
    store.decisions.add([replace(PLACED, time_s=NOW_S - DAY_S)])
    following = Following(store)
    ask = following.scheduler.ended

    def fails_at_the_second(since_s: float, until_s: float, known: Any) -> EndedJobs:
        if len(following.scheduler.asked) == 1:
            following.scheduler.asked.append((0, 0))
            raise SchedulerError("slow")
        return ask(since_s, until_s, known)

    following.scheduler.ended = fails_at_the_second  # type: ignore[method-assign]
    with pytest.raises(SchedulerError):
        following.step()
    following.step()
    assert following.scheduler.asked[2][0] == NOW_S - DAY_S + WINDOW_S - LAG_S


@pytest.mark.parametrize(
    ("first_s", "stored_s", "expected"),
    [
        (None, None, []),
        (NOW_S - 30 * DAY_S, None, NOW_S - LONGEST_S),
        (NOW_S - 30 * DAY_S, NOW_S - 500, NOW_S - 500),
        (NOW_S - 30 * DAY_S, NOW_S - 20 * DAY_S, NOW_S - LONGEST_S),
        (NOW_S - 30 * DAY_S, NOW_S + 500, []),
    ],
)
def test_a_new_daemon_goes_on_where_the_store_ends(
    store: Store, first_s: float | None, stored_s: float | None, expected: Any
) -> None:
    if first_s is not None:
        store.decisions.add([replace(PLACED, time_s=first_s)])
    if stored_s is not None:
        before = Following(store, replace(ENDED, submit_s=first_s, end_s=stored_s))
        before.now_s = stored_s + 1
        before.step()
    following = Following(store)
    following.step()
    asked = [since_s for since_s, _ in following.scheduler.asked]
    assert asked[:1] == ([expected - LAG_S] if expected else [])


def test_a_clock_that_jumped_ahead_and_back_does_not_stop_the_reading(decided: Store) -> None:
    following = Following(decided)
    following.step()
    following.now_s += 365 * DAY_S
    following.step()
    assert len(following.scheduler.asked) < 40, "no more than the last days are read again"
    following.scheduler.jobs = [replace(ENDED, end_s=NOW_S + 30)]
    for after_s in (60, 120):
        following.now_s = NOW_S + after_s
        following.step()
    assert decided.outcomes.of_job("7") is not None


@pytest.mark.parametrize(
    "outcome",
    [
        replace(ENDED, user="mallory"),
        replace(ENDED, submit_s=NOW_S - 900),
    ],
    ids=["another user's", "decided after it was submitted"],
)
def test_a_stamp_that_is_not_the_jobs_own_counts_for_nothing(decided: Store, outcome: Run) -> None:
    Following(decided, outcome).step()
    assert decided.outcomes.of_decision(PLACED.id) == []


def test_a_jobspec_of_flux_that_was_copied_with_its_stamp_counts_for_nothing(store: Store) -> None:
    store.decisions.add([replace(PLACED, scheduler="flux", time_s=NOW_S - DAY_S)])
    following = Following(store, ENDED)
    following.scheduler.name, following.scheduler.stamps_are_private = "flux", False
    following.step()
    assert store.outcomes.of_decision(PLACED.id) == []


LOST = replace(ENDED, decision="")
"""jobstats wrote its summary over the stamp."""


def test_a_job_whose_stamp_was_written_over_is_found_by_user_and_second(decided: Store) -> None:
    following = Following(decided, LOST)
    for _ in range(2):
        following.step()
        following.now_s += 10
    (found,) = decided.outcomes.of_decision(PLACED.id)
    assert (found.job_id, found.candidate, found.predicted_s) == ("7", "gpu", 60)


@pytest.mark.parametrize(
    "job",
    [
        replace(LOST, user="bob"),
        replace(LOST, user=""),
        replace(LOST, submit_s=None),
        replace(LOST, submit_s=NOW_S - 190),
        replace(LOST, decision=None),
    ],
    ids=["of another", "of nobody", "of no time", "later", "never stamped"],
)
def test_what_fits_no_decision_is_left_alone(decided: Store, job: Run) -> None:
    Following(decided, job).step()
    assert decided.outcomes.of_decision(PLACED.id) == []


def test_of_two_that_fit_neither_is_taken(decided: Store) -> None:
    Following(decided, LOST, replace(LOST, job_id="8")).step()
    assert decided.outcomes.of_decision(PLACED.id) == []
    second = replace(PLACED, id="second", time_s=PLACED.time_s + 0.5)
    decided.decisions.add([second])
    Following(decided, LOST).step()
    assert list(decided.outcomes.between(0, NOW_S)) == []


def test_a_decision_that_another_jobs_stamp_names_is_not_taken(decided: Store) -> None:
    second = replace(PLACED, id="second", time_s=PLACED.time_s + 0.5)
    decided.decisions.add([second])
    Following(decided, ENDED, replace(LOST, job_id="8")).step()
    assert [o.job_id for o in decided.outcomes.of_decision("second")] == ["8"]
    Following(decided, replace(LOST, job_id="9")).step()  # both are taken now
    assert decided.outcomes.of_job("9") is None
