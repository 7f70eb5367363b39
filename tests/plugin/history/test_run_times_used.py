"""What the filter knows of jobs that nobody piloted is what the evaluated predictor says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from berth_daemon import Harbour, wait_until
from pydantic import ValidationError

from berth.pilot.errors import BerthError
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.matching import Match, arguments_of, keys, plain_name
from berth.plugin.history.run_times import (
    ANOTHER_LIMIT,
    RANGE_OF,
    WITHOUT_LIMIT,
    Placed,
    RunTimes,
    without_limit,
)
from berth.plugin.history.workloads import make_workloads
from berth.plugin.site.load import load_site
from berth.plugin.store import Store
from berth.plugin.store.records import PastJobRecord
from berth.policies.codes import Code
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval
from berth.predictor.families.history.history_family import UNTRUSTED, WEIGHED
from berth.predictor.families.history.kind import PredictedRun
from berth.predictor.learning.history import (
    AskedJob,
    EndedJob,
    PastJob,
    RunTimePredictor,
    learn_from,
)

NOW_S = 1_800_000_000.0


def past(number: int, seconds: float, **changes: object) -> PastJobRecord:
    """The oldest first; ``given``: arguments of its script."""
    given = str(changes.pop("given", ""))
    name = str(changes.get("name", "align.sh"))
    exact, similar = arguments_of(name, given.split())
    end_s = NOW_S - 3000.0 * (100 - number)
    known: dict[str, object] = {
        "cluster": "lab", "job_id": f"{changes.get('user', 'alice')}{number}", "user": "alice",
        "state": "completed", "submit_s": end_s - seconds - 5, "start_s": end_s - seconds,
        "end_s": end_s, "elapsed_s": seconds, "cores": 16, "name": name, "queue": "cpu",
        "time_limit_s": 3600.0, "request_bytes": 2**36, "account": "phys", "arguments": exact,
        "peak_bytes": 3 * 2**30, "peak_source": "polled",
        "similar": similar,
    }  # fmt: skip
    return PastJobRecord(**known | changes)  # type: ignore[arg-type]


def steady(seconds: float = 600.0, **changes: object) -> list[PastJobRecord]:
    return [past(n, seconds * (1 + 0.02 * (n % 3)), **changes) for n in range(8)]


def made(site: Harbour, jobs: list[PastJobRecord], *, everybody: bool = False) -> Store:
    store = site.store()
    store.past_jobs.put(jobs)
    if everybody:
        text = site.site_file.read_text()
        site.site_file.write_text(text + "\n[learning]\neverybody = true\n")
    read = load_site(site.site_file)
    make_workloads(store, read, forecaster=forecaster_for(read), platforms=platforms_for(read))
    return store


def forecast_of(store: Store, job: PastJobRecord, match: Match) -> Forecast:
    found = dict(
        keys(
            job.user, job.name, job.cores, job.time_limit_s,
            arguments=job.arguments, similar=job.similar, account=job.account,
        )
    )  # fmt: skip
    (name,) = (
        record.name
        for record in store.workloads()
        if any(f.digest == found[match] for f in store.fingerprints(record.name))
    )
    return Forecast.from_json(store.forecasts(name)[0].document)


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
            PastJob(j.job_id, j.start_s, EndedJob(a, j.end_s, j.elapsed_s))
            for j, a in zip(jobs, asked, strict=True)
        ],
        direct,
    )
    expected = direct.predict(
        AskedJob("alice", NOW_S, 16, 3600.0, 2**36, "phys", "align.sh", platform=platform), NOW_S
    ).runtime_s
    found = forecast_of(store, jobs[0], Match.LIMIT)
    runtime = found.runtime_at(platform, 16)
    assert runtime is not None
    assert (runtime.low, runtime.mid, runtime.high) == pytest.approx(
        (expected.low, expected.mid, expected.high), rel=1e-5
    )
    assert found.source_of(platform) == WEIGHED
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    reply = daemon.decide(queue="auto", user="alice", tasks=16, time_limit_min=60, name="align.sh")
    assert reply["code"] == Code.PLACED
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
            found = forecast_of(store, job, match)
            (platform,) = found.curves
            runtime = found.runtime_at(platform, 16)
            assert runtime is not None
            assert runtime.mid == pytest.approx(seconds, rel=0.05)
    by_name = forecast_of(store, jobs[0], Match.LIMIT)
    (platform,) = by_name.curves
    either = by_name.runtime_at(platform, 16)
    assert either is not None
    assert either.low <= 310
    assert either.high >= 2900
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 4)
    asked = {"queue": "auto", "user": "alice", "tasks": 16, "time_limit_min": 60, "script": "#!/x"}
    for what in ("whole", "part"):
        daemon.decide(name="align.sh", arguments=[what, "s77.fq"], **asked)
    wait_until(lambda: store.decisions.count() >= 2)
    profiles = {record.profile for record in store.decisions.last(2)}
    assert len(profiles) == 2, "another number in the arguments is the same kind of job"


def test_a_weaker_match_has_a_wider_interval(site: Harbour) -> None:
    jobs = steady()[:4]
    store = made(site, jobs)
    width = {}
    for match in (Match.LIMIT, Match.NAME):
        found = forecast_of(store, jobs[0], match)
        (platform,) = found.curves
        runtime = found.runtime_at(platform, 16)
        assert runtime is not None
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
    found = forecast_of(store, past(1, 1.0, user="newcomer"), Match.ACCOUNT)
    (platform,) = found.curves
    runtime = found.runtime_at(platform, 16)
    assert runtime is not None
    assert runtime.low <= 600 <= runtime.high
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    asked = {"queue": "auto", "tasks": 16, "time_limit_min": 60, "name": "align.sh"}
    daemon.decide(user="newcomer", account="phys", **asked)
    daemon.decide(user="newcomer", account="chem", **asked)
    wait_until(lambda: store.decisions.count() >= 2)
    by_account = {r.account: r.profile for r in store.decisions.last(2)}
    assert (by_account["phys"] or "").startswith("history-align")
    assert by_account["chem"] is None


def test_a_prediction_that_is_not_trusted_abstains() -> None:
    jobs = [Placed(job, "quartz") for job in steady()]
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
