"""What the filter knows of jobs that nobody piloted is what the evaluated predictor says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from berth_daemon import Harbour, wait_until
from pydantic import ValidationError
from site_jobs import SiteJobs

from berth.pilot.errors import BerthError
from berth.pilot.run import Run
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.decided_jobs import by_user
from berth.plugin.history.matching import Match, describe_job, match_keys, plain_name
from berth.plugin.history.run_times import (
    ANOTHER_LIMIT,
    RANGE_OF,
    WITHOUT_LIMIT,
    PlacedJob,
    RunTimes,
    without_limit,
)
from berth.plugin.history.workloads import make_workloads
from berth.plugin.right_sizing.needs import learn_needs
from berth.plugin.site.load import load_site
from berth.plugin.store import PlacedRun, Store
from berth.policies.codes import Code
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval
from berth.predictor.families.history.history_family import WEIGHED
from berth.predictor.families.history.times_there import UNTRUSTED
from berth.predictor.families.history.workload import PredictedRun
from berth.predictor.learning.history import (
    AskedJob,
    JobEnd,
    PastJob,
    RunTimePredictor,
    learn_from,
)

NOW_S = 1_800_000_000.0


def past(number: int, seconds: float, **changes: object) -> Run:
    """The oldest first; ``given``: arguments of its script, ``text``: the script."""
    given, text = str(changes.pop("given", "")), str(changes.pop("text", ""))
    name = str(changes.get("name", "align.sh"))
    what = describe_job(name, given.split(), text or None)
    end_s = NOW_S - 3000.0 * (100 - number)
    known: dict[str, object] = {
        "cluster": "lab", "job_id": f"{changes.get('user', 'alice')}{number}", "user": "alice",
        "state": "completed", "submit_s": end_s - seconds - 5, "start_s": end_s - seconds,
        "end_s": end_s, "elapsed_s": seconds, "cores": 16, "name": name, "partition": "cpu",
        "time_limit_s": 3600.0, "request_bytes": 2**36, "account": "phys",
        "peak_bytes": 3 * 2**30, "peak_source": "polled", "script": what.script,
        "arguments": what.arguments, "similar": what.similar,
    }  # fmt: skip
    return Run(**known | changes)  # type: ignore[arg-type]


def steady(seconds: float = 600.0, **changes: object) -> list[Run]:
    return [past(n, seconds * (1 + 0.02 * (n % 3)), **changes) for n in range(8)]


def made(site: Harbour, jobs: list[Run], *, everybody: bool = False) -> Store:
    store = site.store()
    store.past_jobs.put(jobs)
    if everybody:
        text = site.site_file.read_text()
        site.site_file.write_text(text + "\n[learning]\neverybody = true\n")
    read = load_site(site.site_file)
    make_workloads(store, read, forecaster=forecaster_for(read), platforms=platforms_for(read))
    return store


def forecast_of(store: Store, job: Run, match: Match) -> Forecast:
    found = dict(match_keys(job.user, job.cores, job.time_limit_s, job, account=job.account))
    (name,) = (
        record.name
        for record in store.workloads()
        if any(f.digest == found[match] for f in store.fingerprints(record.name))
    )
    return Forecast.from_json(store.forecasts(name)[0].document)


def runtime_of(store: Store, job: Run, match: Match) -> Interval:
    """What a job matched so is predicted to take on its one platform."""
    forecast = forecast_of(store, job, match)
    (platform,) = forecast.curves
    runtime = forecast.runtime_at(platform, 16)
    assert runtime is not None
    return runtime


def test_a_new_job_is_predicted_by_the_evaluated_predictor(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW_S)
    jobs = steady()
    store = made(site, jobs)
    monkeypatch.undo()
    (platform,) = forecast_of(store, jobs[0], Match.LIMIT).curves
    asked = [
        AskedJob(
            "alice", j.submit_s, 16, 3600.0, 2**36, "phys", plain_name(j.name), platform=platform
        )
        for j in jobs
    ]
    direct = RunTimePredictor()
    learn_from(
        [
            PastJob(j.job_id, j.start_s, JobEnd(a, j.end_s, j.elapsed_s))
            for j, a in zip(jobs, asked, strict=True)
        ],
        direct,
    )
    expected = direct.predict(
        AskedJob("alice", NOW_S, 16, 3600.0, 2**36, "phys", "align.sh", platform=platform), NOW_S
    ).runtime_s
    runtime = runtime_of(store, jobs[0], Match.LIMIT)
    assert (runtime.low, runtime.mid, runtime.high) == pytest.approx(
        (expected.low, expected.mid, expected.high), rel=1e-5
    )
    assert forecast_of(store, jobs[0], Match.LIMIT).source_of(platform) == WEIGHED
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    reply = daemon.decide(queue="auto", user="alice", tasks=16, time_limit_min=60, name="align.sh")
    assert reply["code"] == Code.STAYS  # it ran on the nodes of auto
    wait_until(lambda: store.decisions.count() >= 1)
    record = store.decisions.last(1)[0]
    assert f"{expected.mid:.0f}"[:3] in record.ranked


def test_jobs_are_told_apart_by_their_arguments(site: Harbour) -> None:
    jobs = [
        past(n, 3000.0 if n % 2 else 300.0, given=f"{'whole' if n % 2 else 'part'} s{n % 4}.fq")
        for n in range(16)
    ]
    store = made(site, jobs)
    for match in (Match.ARGUMENTS, Match.SIMILAR):
        for job, seconds in ((jobs[0], 300.0), (jobs[1], 3000.0)):
            assert runtime_of(store, job, match).mid == pytest.approx(seconds, rel=0.05)
    either = runtime_of(store, jobs[0], Match.LIMIT)
    assert either.low <= 310
    assert either.high >= 2900
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 4)
    asked = {"queue": "auto", "user": "alice", "tasks": 16, "time_limit_min": 60, "script": "#!/x"}
    for what in ("whole", "part"):
        daemon.decide(name="align.sh", arguments=[what, "s77.fq"], **asked)
    wait_until(lambda: store.decisions.count() >= 2)
    workloads = {record.workload for record in store.decisions.last(2)}
    assert len(workloads) == 2, "another number in the arguments is the same kind of job"


def test_a_weaker_match_has_a_wider_interval(site: Harbour) -> None:
    jobs = steady()[:4]
    store = made(site, jobs)
    width = {}
    for match in (Match.LIMIT, Match.NAME):
        runtime = runtime_of(store, jobs[0], match)
        width[match] = math.log(runtime.high / runtime.low)
    assert width[Match.NAME] > 2 * width[Match.LIMIT]
    assert ANOTHER_LIMIT > 1


def test_one_user_moves_no_other_users_times(site: Harbour, tmp_path: Path) -> None:
    own = steady()
    alone = forecast_of(made(site, own), own[0], Match.LIMIT)
    fakes = [
        past(n % 90, 3.0, user="mallory", job_id=f"m{n}", account="phys") for n in range(2_000)
    ]
    beside = forecast_of(made(site, fakes), own[0], Match.LIMIT)
    assert {p: c.points[0].runtime_s.mid for p, c in beside.curves.items()} == {
        p: c.points[0].runtime_s.mid for p, c in alone.curves.items()
    }
    account = past(1, 1.0, user="newcomer")
    with pytest.raises(ValueError, match="not enough values"):
        forecast_of(site.store(), account, Match.ACCOUNT)


def test_where_all_are_trusted_a_newcomer_is_matched_by_account(site: Harbour) -> None:
    others = [*steady(), *steady(620.0, user="bob")]
    store = made(site, others, everybody=True)
    runtime = runtime_of(store, past(1, 1.0, user="newcomer"), Match.ACCOUNT)
    assert runtime.low <= 600 <= runtime.high
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    asked = {"queue": "auto", "tasks": 16, "time_limit_min": 60, "name": "align.sh"}
    daemon.decide(user="newcomer", account="phys", **asked)
    daemon.decide(user="newcomer", account="chem", **asked)
    wait_until(lambda: store.decisions.count() >= 2)
    by_account = {r.account: r.workload for r in store.decisions.last(2)}
    assert (by_account["phys"] or "").startswith("history-align")
    assert by_account["chem"] is None


def test_jobs_with_the_same_script_are_matched_whatever_they_are_called(site: Harbour) -> None:
    text = "#!/bin/bash\n#SBATCH -n 16\n./melt --steps {}\n"
    jobs = [
        past(n, 3000.0 if n % 2 else 300.0, name=f"run-{chr(97 + n)}", text=text.format(n % 2))
        for n in range(12)
    ]
    store = made(site, jobs)
    for job, seconds in ((jobs[0], 300.0), (jobs[1], 3000.0)):
        assert runtime_of(store, job, Match.SCRIPT).mid == pytest.approx(seconds, rel=0.05)
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 2)
    asked = {"queue": "auto", "user": "alice", "tasks": 16, "time_limit_min": 60, "name": "new"}
    other = "#!/usr/bin/env bash\n#SBATCH -n 32 # more\n\n./melt --steps 1\n"
    daemon.decide(script=other, **asked)
    daemon.decide(script=other, arguments=["x"], **asked)
    daemon.decide(script="#!/bin/bash\n./melt --steps 2\n", **asked)
    daemon.decide(script=other, **asked | {"user": "bob"})
    wait_until(lambda: store.decisions.count() >= 4)
    by_profile = [r.workload for r in sorted(store.decisions.last(4), key=lambda r: r.time_s)]
    assert by_profile[0] is not None
    assert by_profile[0].startswith("alice/history-run-b")
    assert by_profile[1:] == [None, None, None]


def test_a_program_that_is_known_from_its_outcomes_only_is_matched_by_all_that_was_seen(
    site: Harbour,
) -> None:
    store = site.store()
    daemon = site.start()
    asked = {"queue": "auto", "user": "carol", "tasks": 8, "time_limit_min": 10, "account": "phys"}
    script = "#!/bin/sh\nexec ./thaw $1\n"
    for n in range(4):
        daemon.decide(name="thaw.sh", script=script, arguments=[f"s{n}"], **asked)
    daemon.decide(name="odd", **asked)
    wait_until(lambda: store.decisions.count() >= 5)
    decisions = sorted(store.decisions.last(5), key=lambda r: r.time_s)
    seen = json.loads(decisions[0].request)["job"]
    assert seen["name"] == "thaw.sh"
    assert "thaw" not in "".join((seen["script"], seen["arguments"], seen["similar"]))
    ended_s = decisions[0].time_s
    outcomes = [
        PlacedRun(
            "tests", str(n), "carol", "completed", decision=one.id, partition="cpu",
            submit_s=ended_s - 90, start_s=ended_s - 80 + n, end_s=ended_s - 10 + n, cores=8,
            elapsed_s=70.0, time_limit_s=600.0, peak_bytes=10**9,
        )
        for n, one in enumerate(decisions)
    ]  # fmt: skip
    gone = replace(outcomes[0], job_id="9", decision="pruned")
    store.outcomes.put([*outcomes, gone])
    read = load_site(site.site_file)
    made_of = make_workloads(
        store, read, forecaster=forecaster_for(read), platforms=platforms_for(read)
    )
    assert made_of.workloads >= 3
    assert learn_needs(store, ended_s) >= 2
    wait_until(lambda: daemon.stats()["forecasts"] >= 3)
    asked["time_limit_min"] = 20  # neither the shape nor the limit of any of them
    for words in ({"script": script, "arguments": ["s7"]}, {"script": "#!/bin/sh\n./thaw\n"}):
        daemon.decide(name="thaw.sh", **words, **asked)
    daemon.decide(name="other.sh", **asked)
    wait_until(lambda: store.decisions.count() >= 8)
    similar, by_name, other = sorted(store.decisions.last(3), key=lambda r: r.time_s)
    assert (similar.workload or "").startswith("carol/history-thaw.sh")
    assert (by_name.workload or "").startswith("carol/history-thaw.sh")
    assert similar.workload != by_name.workload
    assert other.workload is None


def test_what_a_decision_says_of_a_job_may_be_broken(site: Harbour) -> None:
    store = site.store()
    job_id = SiteJobs(store).job("app", 100.0, at_s=1.7e9, cores=4)
    (decision,) = store.decisions.last(1)
    for text in (
        "", "[", "[]", '{"job": 3}', '{"job": {"name": 7}}', '{"size": null}', "[" * 100_000,
        '{"job": {"script": "' + "x" * 99 + '"}}',
    ):  # fmt: skip
        store.decisions.prune(4e9)
        store.decisions.add([replace(decision, request=text)])
        ((user, (job,)),) = by_user(store)
        assert (user, job.job_id, job.name, job.script) == ("alice", job_id, "", "")


def test_a_job_without_an_account_is_one_of_its_users_default_account(site: Harbour) -> None:
    store = made(site, [*steady(), *steady(620.0, user="bob")], everybody=True)
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    asked = {"queue": "auto", "tasks": 16, "time_limit_min": 60, "name": "align.sh"}
    for words in (
        {"default_account": "phys"}, {"default_account": "chem"},
        {"default_account": "phys", "account": "chem"}, {},
    ):  # fmt: skip
        daemon.decide(user="newcomer", **words, **asked)
    wait_until(lambda: store.decisions.count() >= 4)
    found = [
        (r.account, r.workload is not None)
        for r in sorted(store.decisions.last(4), key=lambda r: r.time_s)
    ]
    assert found == [("phys", True), ("chem", False), ("chem", False), (None, False)]
    assert daemon.decide(default_account=7, **asked)["code"] == Code.BAD_REQUEST


def test_a_prediction_that_is_not_trusted_abstains() -> None:
    jobs = [PlacedJob(job, "quartz") for job in steady()]
    (one,) = RunTimes(jobs).of_match(Match.LIMIT, jobs, NOW_S)
    assert one.trusted
    assert 0.0 < one.accuracy <= 1.0
    assert UNTRUSTED


@pytest.mark.parametrize("times", [(5.0, 4.0, 6.0), (1.0, 7.0, 6.0), (0.0, 1.0, 2.0)])
def test_times_that_are_not_in_order_are_refused(times: tuple[float, float, float]) -> None:
    low_s, mid_s, high_s = times
    with pytest.raises((ValidationError, BerthError)):
        PredictedRun(platform="p", cores=1, low_s=low_s, mid_s=mid_s, high_s=high_s, accuracy=0.5)


def test_what_a_new_limit_may_change_is_as_wide_as_past_runs_differ() -> None:
    said = Interval(50.0, 100.0, 200.0)
    assert without_limit(said, [100.0] * 9) == said
    varied = without_limit(said, [10.0, 100.0, 1000.0])
    assert varied.mid == said.mid
    assert varied.high / said.high == pytest.approx(100.0**WITHOUT_LIMIT)
    assert said.low / varied.low == pytest.approx(100.0**WITHOUT_LIMIT)
    old = [1.0, *[100.0] * RANGE_OF]
    assert without_limit(said, old) == said
    assert without_limit(said, [0.0, 1.0]) == said  # a run of no time counts as a second
