"""Evidence and learnt forecasts in both databases: once, all or nothing."""

from __future__ import annotations

from dataclasses import replace

from site_jobs import CPU, NOW_S, SiteJobs, factor, forecast

from berth.plugin.learning.learner import Learner
from berth.plugin.store import Store


def test_finished_jobs_reach_the_daemons_view(store: Store) -> None:
    jobs = SiteJobs(store)
    jobs.workload(forecast("app", {CPU: 100}))
    jobs.job("app", 200)
    before = store.changes_since(0)
    assert before.learnt == ()
    Learner(store, clock=lambda: NOW_S).until_done()
    after = store.changes_since(before.revision)
    assert [(r.profile, r.user, r.runs) for r in after.learnt] == [("app", "alice", 1)]
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
    row = store.learning.of_job(pending[0].job_id)
    assert row is not None
    # The second had read the same pending jobs and comes too late: all or nothing.
    late = replace(store.learning.forecasts("app")[0], document="{}", inputs="late")
    assert not store.learning.put([row], [late])
    assert store.learning.forecasts("app")[0].inputs != "late"
    assert second.until_done().jobs == 0
