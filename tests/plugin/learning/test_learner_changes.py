"""A program or a platform that changed: noticed, recovered from and shown."""

from __future__ import annotations

import math

import pytest
from site_jobs import CPU, GPU, NOW_S, SiteJobs, factor, forecast, learner, width

from berth.plugin.learning.shown import changes_since, moved
from berth.plugin.report.of_store import learnt_text
from berth.plugin.store import Store


def test_a_change_is_noticed_within_ten_jobs_and_recovered_from(
    store: Store, jobs: SiteJobs
) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    for n in range(15):
        jobs.job("app", 100 + n % 3)
    assert learner(store).until_done().notices == ()
    settled = width(store, "app", "alice")
    notices: tuple[str, ...] = ()
    count = 0
    while not notices and count < 11:
        jobs.job("app", 200 + count % 3)
        notices = learner(store).until_done().notices
        count += 1
    assert count <= 10
    assert notices[0].startswith("workload app: jobs take clearly longer than before since ")
    assert width(store, "app", "alice") > settled
    for n in range(10):
        jobs.job("app", 200 + n % 3)
    learner(store).until_done()
    assert factor(store, "app", "alice") == pytest.approx(2.0, rel=0.03)
    assert width(store, "app", "alice") < 0.3


def test_a_platform_that_changed_widens_programs_that_did_not_run_since(
    store: Store, jobs: SiteJobs
) -> None:
    for name in ("a", "b", "c"):
        jobs.workload(forecast(name, {CPU: 100, GPU: 50}))
    for n in range(8):
        for name in ("a", "b", "c"):
            jobs.job(name, 100 + n % 3)
    learner(store).until_done()
    before = width(store, "c", "alice")
    for n in range(4):
        for name in ("a", "b"):
            jobs.job(name, 200 + n % 3)
    (notice,) = learner(store).until_done().notices
    assert notice.startswith(f"platform {CPU}: jobs take clearly longer")
    assert width(store, "c", "alice") > before
    assert 1.4 < factor(store, "c", "alice") < 2.2


def test_show_says_which_jobs_moved_a_forecast_and_by_how_much(
    store: Store, jobs: SiteJobs
) -> None:
    jobs.workload(forecast("app", {CPU: 100, GPU: 50}))
    ids = [jobs.job("app", seconds) for seconds in (200, 210, 20_000, 190)]
    learner(store).until_done()
    (found,) = moved(store, "app")
    assert (found.user, found.platform, found.before_s) == ("alice", CPU, 100)
    assert found.after_s == pytest.approx(200, rel=0.1)
    assert {m.job for m in found.movers} == set(ids)
    assert math.prod(m.moved for m in found.movers) == pytest.approx(found.after_s / 100, rel=0.02)
    assert [m.job for m in found.movers if m.outlier] == [ids[2]]
    lines = learnt_text([found])
    assert lines[0].startswith("  learnt for alice on quartz: ")
    assert any("set aside as an outlier" in line for line in lines)


def test_changes_are_told_where_people_look(
    store: Store, jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.workload(forecast("app", {CPU: 100}))
    for n in range(20):
        jobs.job("app", (100 if n < 12 else 220) + n % 3)
    learner(store).until_done()
    found = changes_since(store, 0.0)
    (sentence,) = found.sentences
    assert found.bound == []
    assert sentence.startswith("workload app: jobs take clearly longer than before since ")
    assert changes_since(store, NOW_S).sentences == []
    monkeypatch.setattr("berth.plugin.learning.shown.MOST_SHOWN", 7)
    assert changes_since(store, 0.0).bound == ["changes are looked for in the newest 7 jobs"]
    assert changes_since(store, NOW_S).bound == []
