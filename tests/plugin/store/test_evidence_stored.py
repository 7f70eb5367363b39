"""Evidence and learnt forecasts in both databases: once, all or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from site_jobs import CPU, NOW_S, SiteJobs, factor, forecast
from sqlalchemy import event

from berth.plugin.learning.learner import Learner
from berth.plugin.store import PlacedRun, Store


def test_finished_jobs_reach_the_daemons_view(store: Store) -> None:
    jobs = SiteJobs(store)
    jobs.workload(forecast("app", {CPU: 100}))
    jobs.job("app", 200)
    before = store.changes_since(0)
    assert before.learnt == ()
    Learner(store, clock=lambda: NOW_S).until_done()
    after = store.changes_since(before.revision)
    assert [(r.workload, r.user, r.runs) for r in after.learnt] == [("app", "alice", 1)]
    assert after.learnt_keys == {("app", "alice")}
    assert factor(store, "app", "alice") > 1.2
    store.remove_workload("app")
    assert store.changes_since(0).learnt_keys == frozenset()


def test_two_daemons_learn_once(store: Store) -> None:
    jobs = SiteJobs(store)
    jobs.workload(forecast("app", {CPU: 100}))
    jobs.job("app", 120)
    first, second = (Learner(store, clock=lambda: NOW_S) for _ in range(2))
    pending = store.learning.pending(0.0, 10)
    first.until_done()
    # The second had read the same pending jobs and comes too late: all or nothing.
    late = replace(store.learning.forecasts("app")[0], document="{}", inputs="late")
    assert not store.learning.put([replace(pending[0], use="used")], [late])
    assert store.learning.forecasts("app")[0].inputs != "late"
    assert second.until_done().jobs == 0


ENDED = PlacedRun("lab", "1", "alice", "completed", end_s=50.0, workload="app")


def _looked_at(store: Store, *job_ids: str, use: str = "used") -> bool:
    runs = [replace(run, use=use) for run in store.learning.pending(0.0, 9)]
    return store.learning.put([run for run in runs if run.job_id in job_ids], [])


def test_only_what_learning_has_not_looked_at_as_it_is_now_is_pending(store: Store) -> None:
    nameless = replace(ENDED, job_id="2", workload=None)
    running = replace(ENDED, job_id="3", end_s=None)
    later = replace(ENDED, job_id="4", end_s=60.0)
    store.outcomes.put([later, running, nameless, ENDED])
    assert store.learning.pending(0.0, 9) == [ENDED, later]
    assert store.learning.pending(0.0, 1) == [ENDED]
    assert store.learning.pending(55.0, 9) == [later]
    assert store.learning.count_pending(0.0) == 2
    assert _looked_at(store, "1", "4")
    assert store.learning.pending(0.0, 9) == []
    store.outcomes.put([ENDED, later])  # accounting is read again
    assert store.learning.count_pending(0.0) == 0
    again, worse = replace(ENDED, end_s=70.0), replace(later, state="failed")
    store.outcomes.put([again, worse, replace(nameless, workload="app")])
    assert [one.job_id for one in store.learning.pending(0.0, 9)] == ["2", "4", "1"]
    changed = store.learning.pending(0.0, 9)[-1]
    assert (changed.end_s, changed.seen_end_s, changed.use) == (70.0, 50.0, "used")
    assert _looked_at(store, "1")
    assert not store.learning.put([replace(changed, use="requeued")], [])  # another was first
    assert again.job_id not in [one.job_id for one in store.learning.pending(0.0, 9)]


def test_what_was_learnt_is_forgotten_and_pending_again(store: Store) -> None:
    old, kept = replace(ENDED, job_id="2", end_s=10.0), replace(ENDED, job_id="3")
    store.outcomes.put([ENDED, old, kept])
    assert _looked_at(store, "1", "2")
    assert store.learning.set_use("3", "by-hand") == []  # learning has not looked at it
    assert _looked_at(store, "3")
    assert store.learning.set_use("3", "by-hand") == ["app"]
    assert store.learning.clear("by-hand", since_s=40.0) == 2
    assert store.learning.pending(0.0, 9) == [ENDED]


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_postgresql_sees_that_its_index_holds_what_is_pending(store: Store) -> None:
    """SQLite's indexes are looked at in test_indexes.py."""
    asked = []
    with store.database.read() as connection:

        def note(_connection: object, _cursor: object, statement: str, *rest: object) -> None:
            asked.append((statement, rest[0]))

        event.listen(store.database.engine, "before_cursor_execute", note)
        store.learning.pending(5.0, 9)
        event.remove(store.database.engine, "before_cursor_execute", note)
        # A table of some rows is read as a whole.
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        ((statement, values),) = asked
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}", values).all()
    found = " ".join(str(row) for row in plan)
    assert "ix_runs_unseen" in found
