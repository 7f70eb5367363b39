"""Finished jobs change forecasts: whose, by how much, and how it is undone."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from empty_stores import open_store
from site_jobs import CPU, GPU, NOW_S, SiteJobs, factor, forecast, learner, width
from sqlalchemy import event

from berth.plugin.learning.counted import LearningUse
from berth.plugin.learning.learner import Learner, Learnt
from berth.plugin.learning.scope import StoreReader
from berth.plugin.learning.shown import changes_since, moved
from berth.plugin.store import Store
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis


def documents(store: Store) -> list[tuple[str, str, str]]:
    return [(r.workload, r.user, r.document) for r in store.learning.forecasts()]


def use_of(store: Store, job: str) -> str:
    found = store.outcomes.of_job(job)
    assert found is not None
    assert found.use is not None
    return found.use


def test_a_forecast_that_is_wrong_by_three_is_put_right_within_three_jobs(
    store: Store, jobs: SiteJobs
) -> None:
    jobs.workload(forecast("app", {CPU: 100, GPU: 50}))
    for _ in range(3):
        jobs.job("app", 300)
    done = learner(store).until_done()
    assert done.used == 3
    assert factor(store, "app", "alice") == pytest.approx(3.0, rel=0.1)
    learnt = Forecast.from_json(store.learning.forecasts("app")[0].document)
    point = learnt.at(CPU, 1)
    assert point is not None
    assert point.basis is Basis.MEASURED
    assert learnt.source_of(CPU) == "finished jobs: 3 here"
    elsewhere = learnt.at(GPU, 1)
    assert elsewhere is not None
    assert elsewhere.basis is Basis.LEARNED
    assert 1.2 < factor(store, "app", "alice", GPU) < 2.5
    assert width(store, "app", "alice", GPU) > width(store, "app", "alice") + math.log(1.2)


@pytest.mark.parametrize("guess_s", [20.0, 150.0, None])
def test_a_job_that_ran_is_the_forecast_there_also_where_nothing_was_predicted(
    store: Store, jobs: SiteJobs, guess_s: float | None
) -> None:
    guess = {} if guess_s is None else {"old": guess_s}
    one = forecast("app", {CPU: 50.0})
    guessed = forecast("app", guess, width=9.0, basis=Basis.PRIOR, abstained="only a guess")
    jobs.workload(replace(one, curves={**one.curves, **guessed.curves}))
    jobs.job("app", 100, platform="old", predicted=False, units=1)
    learner(store).until_done()
    learnt = Forecast.from_json(store.learning.forecasts("app")[0].document)
    there = learnt.at("old", 1)
    assert there is not None
    assert (there.basis, there.abstained) == (Basis.MEASURED, None)
    assert there.runtime_s.low <= 100 <= there.runtime_s.high
    assert there.runtime_s.mid == pytest.approx(100, rel=0.2)
    assert [one.platform for one in moved(store, "app")] == ["old"]
    learner(store).rebuild()
    again = Forecast.from_json(store.learning.forecasts("app")[0].document)
    assert again == learnt


def test_a_job_that_was_cut_off_where_nothing_was_predicted_is_no_time(
    store: Store, jobs: SiteJobs
) -> None:
    jobs.workload(forecast("app", {CPU: 50.0}))
    jobs.job("app", 100, platform="old", predicted=False, state="timeout")
    learner(store).until_done()
    assert all("old" not in Forecast.from_json(r.document).curves
               for r in store.learning.forecasts("app"))  # fmt: skip


def test_nothing_new_makes_nothing_anew(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    jobs.job("app", 120)
    assert learner(store).until_done().forecasts == (("app", "alice"),)
    revision = store.revision()
    again = learner(store).until_done()
    assert (again.jobs, again.forecasts) == (0, ())
    assert store.revision() == revision
    assert not store.learning.has_work(NOW_S)


def test_workloads_of_all_jobs_are_read_at_once(store: Store, jobs: SiteJobs) -> None:
    asked: list[str] = []
    event.listen(
        store.database.engine, "before_cursor_execute",
        lambda _connection, _cursor, statement, *_: asked.append(statement),
    )  # fmt: skip
    counts = []
    for name in ("a", "b", "c"):
        jobs.workload(forecast(name, {CPU: 100}), owner="alice")
        for workload in (name, f"gone-{name}"):
            jobs.job(workload, 200)
        learner(store, everybody=True).until_done()
        asked.clear()
        changes_since(store, 0.0)
        counts.append(sum("FROM workloads" in statement for statement in asked))
    assert counts == [1, 1, 1]


def test_learning_in_pieces_and_learning_anew_give_the_same(store: Store, jobs: SiteJobs) -> None:
    for name in ("a", "b", "c"):
        jobs.workload(forecast(name, {CPU: 100, GPU: 40}))
    for n in range(12):
        jobs.job("abc"[n % 3], 200 + 7 * n, platform=GPU if n % 4 == 0 else CPU)
        if n % 5 == 0:
            learner(store).until_done()
    learner(store).until_done()
    before = documents(store)
    learner(store).rebuild()
    assert documents(store) == before


def test_a_backlog_is_worked_off_in_pieces_with_the_same_forecasts(
    store: Store, jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        jobs.workload(forecast(name, {CPU: 100, GPU: 40}), owner="olga")
    for n in range(34):
        user = ("alice", "bob", "olga")[n % 3]
        jobs.job("ab"[n % 2], 200 + 7 * n, platform=GPU if n % 4 == 0 else CPU, user=user)
    whole = learner(store).until_done()
    found, scores = documents(store), [r.score for r in store.learning.of_all(100)]
    monkeypatch.setattr("berth.plugin.learning.learner.BATCH", 8)
    in_pieces = learner(store).rebuild()
    assert documents(store) == found
    assert [r.score for r in store.learning.of_all(100)] == scores
    assert (whole.jobs, in_pieces.jobs, in_pieces.used) == (34, 34, 34)
    assert not in_pieces.more


def test_a_job_can_be_taken_back(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    jobs.job("app", 110)
    learner(store).until_done()
    without = factor(store, "app", "alice"), width(store, "app", "alice")
    odd = jobs.job("app", 200)
    learner(store).until_done()
    assert factor(store, "app", "alice") > without[0] * 1.02
    one = learner(store)
    assert one.without(odd) == ["app"]
    one.until_done()
    assert (factor(store, "app", "alice"), width(store, "app", "alice")) == pytest.approx(without)
    learner(store).rebuild()
    assert use_of(store, odd) == LearningUse.BY_HAND
    assert factor(store, "app", "alice") == pytest.approx(without[0])
    assert one.without("4711") == []


def test_one_odd_run_hardly_counts(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    for seconds in (101, 99, 100, 10_000, 102, 98):
        jobs.job("app", seconds)
    learner(store).until_done()
    assert factor(store, "app", "alice") == pytest.approx(1.0, abs=0.05)


def test_a_user_moves_nobody_elses_forecasts(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100, GPU: 50}), owner="olga")
    jobs.workload(forecast("alice/own", {CPU: 100}), owner="alice")
    for _ in range(3):
        jobs.job("app", 105, user="alice")
        jobs.job("alice/own", 100, user="alice")
    learner(store).until_done()
    before = documents(store)
    for _ in range(12):
        jobs.job("app", 2, user="mallory")
        jobs.job("app", 2, user="mallory", platform=GPU)
        jobs.job("alice/own", 2, user="mallory")
    learner(store).until_done()
    assert [d for d in documents(store) if d[1] != "mallory"] == before
    assert factor(store, "app", "mallory") < 0.1
    assert factor(store, "alice/own") == pytest.approx(1.0, abs=0.05)


def test_thousands_of_jobs_of_one_user_do_not_push_out_those_that_count_for_all(
    store: Store, jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.plugin.learning.scope.MOST_OF_ALL", 20)
    monkeypatch.setattr("berth.plugin.learning.scope.LEAST_OF_OWNER", 5)
    jobs.workload(forecast("app", {CPU: 100, GPU: 50}), owner="olga")
    for user in ("olga", "alice"):
        for _ in range(4):
            jobs.job("app", 300, user=user)
    learner(store).until_done()
    before = {user: factor(store, "app", user) for user in ("", "olga", "alice")}
    assert before[""] == pytest.approx(3.0, rel=0.1)
    for _ in range(60):
        jobs.job("app", 3, user="mallory")
    learner(store).until_done()
    learner(store).rebuild()
    assert {user: factor(store, "app", user) for user in before} == pytest.approx(before)
    assert factor(store, "app", "mallory") < 0.5


def test_where_the_site_trusts_everybody_all_jobs_count_for_all(
    store: Store, jobs: SiteJobs
) -> None:
    jobs.workload(forecast("app", {CPU: 100}), owner="root")
    for user in ("alice", "bob", "carol"):
        jobs.job("app", 200, user=user)
    learner(store, everybody=True).until_done()
    assert factor(store, "app") == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(
    ("wrong", "use"),
    [
        ({"state": "failed"}, LearningUse.NOT_COMPLETED),
        ({"state": "cancelled"}, LearningUse.NOT_COMPLETED),
        ({"state": "preempted"}, LearningUse.NOT_COMPLETED),
        ({"state": "out-of-memory"}, LearningUse.NOT_COMPLETED),
        ({"elapsed_s": -5.0}, LearningUse.BAD_TIMES),
        ({"elapsed_s": 0.0}, LearningUse.TOO_SHORT),
        ({"elapsed_s": 1.0}, LearningUse.TOO_SHORT),
        ({"start_s": NOW_S + 50.0}, LearningUse.BAD_TIMES),
        ({"start_s": NOW_S - 50.0, "elapsed_s": 100.0}, LearningUse.BAD_TIMES),
        ({"end_s": NOW_S + 1e7, "start_s": NOW_S + 1e7 - 100}, LearningUse.BAD_TIMES),
        ({"submit_s": NOW_S + 5000.0}, LearningUse.BAD_TIMES),
        ({"submit_s": NOW_S - 950.0, "start_s": NOW_S - 900.0}, LearningUse.SUSPENDED),
        ({"platform": None}, LearningUse.NO_PLACE),
        ({"candidate": "elsewhere"}, LearningUse.NO_PLACE),
    ],
)
def test_what_says_nothing_of_the_time_is_left_out(
    store: Store, jobs: SiteJobs, wrong: dict[str, object], use: LearningUse
) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    state = str(wrong.pop("state", "completed"))
    platform = wrong.pop("platform", CPU)
    job = jobs.job("app", 100, state=state, at_s=NOW_S, **({"candidate": CPU} | wrong))
    if platform is None:
        found = store.outcomes.of_job(job)
        assert found is not None
        store.outcomes.put([replace(found, platform=None)])
    done = learner(store).until_done()
    assert (done.jobs, done.used, done.forecasts) == (1, 0, ())
    assert use_of(store, job) == use


def test_a_requeued_job_is_taken_back(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    job = jobs.job("app", 300, at_s=NOW_S - 5000)
    learner(store).until_done()
    assert factor(store, "app", "alice") > 1.5
    found = store.outcomes.of_job(job)
    assert found is not None
    store.outcomes.put([replace(found, end_s=NOW_S - 100, start_s=NOW_S - 140, elapsed_s=40.0)])
    learner(store).until_done()
    assert use_of(store, job) == LearningUse.REQUEUED
    assert factor(store, "app", "alice") == pytest.approx(1.0, abs=0.01)


def test_a_time_limit_that_kills_is_a_lower_bound(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    early = jobs.job("app", 10, state="timeout")
    learner(store).until_done()
    assert use_of(store, early) == LearningUse.CENSORED
    assert factor(store, "app", "alice") == pytest.approx(1.0, abs=0.1)
    for _ in range(3):
        jobs.job("app", 300, state="timeout")
    learner(store).until_done()
    assert factor(store, "app", "alice") > 2


def test_a_workload_that_was_replaced_begins_anew(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    for _ in range(3):
        jobs.job("app", 300)
    learner(store).until_done()
    other = replace(forecast("app", {CPU: 100}), digest="sha256:other")
    jobs.workload(other, created_s=NOW_S - 10)
    assert store.learning.outdated()
    late = jobs.job("app", 300, at_s=NOW_S - 1)
    learner(store).until_done()
    assert use_of(store, late) == LearningUse.OTHER_CONTENT
    assert factor(store, "app", "alice") == pytest.approx(1.0)


def test_a_new_forecast_without_learning_is_learnt_upon(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    for _ in range(4):
        jobs.job("app", 300)
    learner(store).until_done()
    shelf = {r.workload for r in store.changes_since(0).learnt}
    assert shelf == {"app"}
    jobs.workload(forecast("app", {CPU: 290}))
    assert store.changes_since(0).learnt == ()
    assert store.learning.has_work(NOW_S)
    learner(store).until_done()
    assert factor(store, "app", "alice") == pytest.approx(300 / 290, rel=0.05)


def test_a_wrong_platform_is_learnt_from_all_programs(store: Store, jobs: SiteJobs) -> None:
    names = [f"alice/p{n}" for n in range(5)]
    for name in names:
        jobs.workload(forecast(name, {CPU: 100, GPU: 50}), owner="alice")
    for name in names[:4]:
        for _ in range(3):
            jobs.job(name, 150, platform=GPU)
    learner(store).until_done()
    assert factor(store, names[4], platform=GPU) > 1.3
    assert factor(store, names[4], platform=CPU) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("everybody", [False, True])
def test_learning_from_what_is_new_finds_what_checking_all_finds(
    tmp_path: Path, everybody: bool
) -> None:
    """After each of many changes, by two stores that get the same jobs."""
    stores = [open_store(f"sqlite:///{tmp_path}/{name}.db") for name in ("new", "all")]
    sites = [SiteJobs(one) for one in stores]
    random = Random(3)  # noqa: S311 - for the same steps each time
    ids: list[str] = []

    def job() -> None:
        workload, user = random.choice(
            [("app", "alice"), ("app", "bob"), ("bob/own", "bob"), ("app", "carol")]
        )
        seconds = random.uniform(80, 300)
        ids.extend({site.job(workload, seconds, user=user) for site in sites})

    def predicted_anew() -> None:
        seconds = random.uniform(80, 300)
        for site in sites:
            site.workload(forecast("app", {CPU: seconds}), owner="alice")

    def left_out() -> None:
        name = random.choice(ids)
        for store in stores:
            Learner(store, everybody=everybody, clock=lambda: NOW_S).without(name)

    def pruned() -> None:
        for store in stores:
            store.outcomes.prune(NOW_S - 86_400 + 60.0 * 3)

    predicted_anew()
    for site in sites:
        site.workload(forecast("bob/own", {CPU: 100}), owner="bob")
    steps = [job] * 8 + [predicted_anew, left_out, pruned, job]
    for step in [job, job, *random.sample(steps, len(steps))]:
        step()
        Learner(stores[0], everybody=everybody, clock=lambda: NOW_S).until_done()
        checks_all = Learner(stores[1], everybody=everybody, clock=lambda: NOW_S)
        while checks_all.round(all_of_them=True).more:
            pass
        learnt = [
            {(r.workload, r.user): (r.inputs, r.document) for r in s.learning.forecasts()}
            for s in stores
        ]
        assert learnt[0] == learnt[1]
    for store in stores:
        store.close()


def test_jobs_of_one_user_are_learnt_from_without_reading_those_of_others(
    store: Store, jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.workload(forecast("app", {CPU: 100}), owner="ada")
    for user in ("ada", "alice", "bob"):
        jobs.job("app", 120, user=user)
    learner(store).until_done()
    assert learner(store).round() == Learnt(0, 0, (), (), more=False)
    read: list[str] = []
    of_user = StoreReader.of_user
    monkeypatch.setattr(
        StoreReader, "of_user", lambda s, user: (read.append(user), of_user(s, user))[1]
    )
    learner(store).until_done()
    assert read == []
    jobs.job("app", 130, user="bob")
    learner(store).until_done()
    assert read == ["bob"]
    read.clear()
    jobs.job("app", 130, user="ada")  # who owns it: counts for all
    learner(store).until_done()
    assert set(read) == {"ada", "alice", "bob"}
    read.clear()
    jobs.workload(forecast("other", {CPU: 100}))
    learner(store).until_done()
    assert set(read) == {"ada", "alice", "bob"}
    read.clear()
    learner(store).until_done()
    assert read == []
