"""``berth why``: pending, running and finished jobs, and those that nobody knows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from site_jobs import CPU, GPU, NOW_S, SiteJobs, forecast

from berth.pilot.errors import SchedulerError
from berth.plugin.cli.command_line import berth
from berth.plugin.cli.jobs.learn import learn
from berth.plugin.cli.why import why
from berth.plugin.installed_site import Installation
from berth.plugin.learning.learner import Learner
from berth.plugin.report.known_job import _elsewhere
from berth.plugin.report.of_job import decided_sentence, others_sentences
from berth.plugin.scheduler import JobNow
from berth.plugin.slurm import commands, present_jobs
from berth.plugin.slurm.scheduler import Slurm
from berth.plugin.store import Store


@pytest.fixture
def jobs(tmp_path: Path) -> SiteJobs:
    made = SiteJobs(Store.open(tmp_path / "store.db"))
    made.workload(forecast("app", {CPU: 100, GPU: 50}))
    return made


def run(jobs: SiteJobs, *words: str) -> str:
    done = CliRunner().invoke(why, [*words, "--store", jobs.store.name], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def stands(monkeypatch: pytest.MonkeyPatch, found: JobNow | None) -> None:
    monkeypatch.setattr(Slurm, "is_here", lambda _self: True)
    monkeypatch.setattr(Slurm, "job_now", lambda _self, _job: found)


def test_a_finished_job(jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, None)
    job = jobs.job("app", 120)
    Learner(jobs.store, clock=lambda: NOW_S).until_done()
    text = run(jobs, job)
    assert f"job {job}: completed after 2m 00s" in text
    assert "why there: because" in text
    assert "for later forecasts it counts" in text
    data = json.loads(run(jobs, job, "--json"))
    assert data["outcome"]["use"] == "used"
    assert data["outcome"]["elapsed_s"] == 120
    low, mid, high = data["there"]["runtime_s"]
    assert low <= mid <= high


def test_a_pending_job(jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, JobNow("pending", "gpu", "another job to end (Dependency)"))
    text = run(jobs, jobs.job("app", 120))
    assert "pending in gpu, waits for another job to end (Dependency); the scheduler" in text
    assert "gives no estimate" in text


def test_a_job_that_waits_in_vain_is_not_said_to_wait(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, JobNow("pending", "auto", present_jobs.waits_for("(PartitionNodeLimit)")))
    text = run(jobs, jobs.job("app", 120))
    assert "pending in auto, never starts as it is: it asks for more nodes than" in text
    assert "waits for" not in text


def test_a_time_of_whole_seconds_that_is_none_is_under_one(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, JobNow("completed", "cpu", elapsed_s=0.0))
    unknown = run(jobs, "4711")
    assert "job 4711: completed within 1 s in cpu" in unknown
    assert "it opted out (berth:off)" in unknown, "whose doing it was is not known"
    stands(monkeypatch, None)
    job = jobs.job("app", 1)
    Learner(jobs.store, clock=lambda: NOW_S).until_done()
    text = run(jobs, job)
    assert "does not count as a time (too-short)" in text
    assert "outside" not in text, "1 s may be anything below two"


def test_a_running_job_says_how_much_is_left(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, JobNow("running", "gpu", nodes="gpu1", elapsed_s=0.5))
    assert "running for" in (text := run(jobs, jobs.job("app", 120)))
    assert "left by its prediction" in text
    stands(monkeypatch, JobNow("running", "gpu", nodes="gpu1", elapsed_s=500.0))
    assert "which it has reached" in run(jobs, jobs.job("app", 120))


def test_a_job_left_as_written_has_no_time_of_the_place_that_it_was_not_sent_to(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, JobNow("running", "auto", nodes="n1", elapsed_s=0.5))
    job = jobs.job("app", 120)
    with jobs.store.database.write() as connection:
        connection.exec_driver_sql(
            """UPDATE decisions SET action = 'keep', code = 'control', edits = '{"queue": "x"}'"""
        )
    assert "left by its prediction" not in run(jobs, job)


def test_a_scheduler_that_does_not_answer_is_said(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: Slurm, _job: str) -> None:
        raise SchedulerError("squeue did not answer within 5 s")

    monkeypatch.setattr(Slurm, "is_here", lambda _self: True)
    monkeypatch.setattr(Slurm, "job_now", broken)
    text = run(jobs, jobs.job("app", 120))
    assert "the scheduler could not be asked: squeue did not answer within 5 s" in text


def test_a_job_that_nobody_knows(jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, None)
    monkeypatch.setattr(Slurm, "stamped", lambda _self, _job: None)
    done = CliRunner().invoke(why, ["77", "--store", jobs.store.name])
    assert done.exit_code != 0
    assert "77 carries no decision" in str(done.exception)


class Restricted:
    """A store that shows this user no decision and no outcome, as the users' socket does with
    those of other users' jobs."""

    def __init__(self) -> None:
        self.decisions = self.outcomes = self

    def get(self, _decision: str) -> None:
        return None

    def of_job(self, _job: str) -> None:
        return None


def test_the_decision_on_another_users_job_is_not_theirs_to_see(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, JobNow("running", "gpu", nodes="gpu1", elapsed_s=5.0))
    monkeypatch.setattr(Slurm, "stamped", lambda _self, _job: "1m7y4whj8kbbvxmm")
    assert "decision 1m7y4whj8kbbvxmm on it is not in the store" in run(jobs, "77")
    monkeypatch.setattr(Installation, "view", lambda _self: Restricted())
    text = run(jobs, "77")
    assert "decision 1m7y4whj8kbbvxmm on it is not yours to see" in text
    assert "opted out" not in text
    assert "not yours to see" in json.loads(run(jobs, "77", "--json"))["not_shown"]


def test_the_jobs_that_are_known_are_shown_beside_one_that_nobody_knows(
    jobs: SiteJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, None)
    monkeypatch.setattr(Slurm, "stamped", lambda _self, _job: None)
    job = jobs.job("app", 120)
    for words in [], ["--json"]:
        shown = ["why", "77", job, *words, "--store", jobs.store.name]
        done = CliRunner().invoke(berth, shown, catch_exceptions=False)
        assert done.exit_code == 0
        assert job in done.stdout
        assert "job 77 carries no decision of Berth's" in done.stderr
    assert [row["job"] for row in json.loads(done.stdout)] == [job]


@pytest.mark.parametrize(
    ("line", "state", "waits", "elapsed_s"),
    [
        ("PENDING|gpu|Resources|2026-01-02T03:04:05||0:00|1:00:00", "pending",
         "nodes or GPUs that are in use now (Resources)", None),
        ("PENDING|gpu|QOSMaxCpuPerUserLimit|N/A||0:00|UNLIMITED", "pending",
         "a limit of its user, account or QOS (QOSMaxCpuPerUserLimit)", None),
        ("PENDING|a,b|Nodes required for job are DOWN, DRAINED or reserved for jobs in higher "
         "priority partitions|N/A||0:00|1:00:00", "pending", "nodes that are in use, down, drained "
         "or reserved for jobs in higher priority partitions", None),
        ("PENDING|gpu|SomethingNew|N/A||0:00|x", "pending", "SomethingNew", None),
        ("RUNNING|gpu|None|2026-01-02T03:04:05|n[1-2]|1-00:00:10|2-00:00:00", "running",
         None, 86_410.0),
    ],
)  # fmt: skip
def test_squeues_line_is_read(
    monkeypatch: pytest.MonkeyPatch, line: str, state: str, waits: str | None,
    elapsed_s: float | None,
) -> None:  # fmt: skip
    record = dict(zip(present_jobs.NOW_FIELDS, line.split("|"), strict=True))
    monkeypatch.setattr(present_jobs, "listed", lambda *_a, **_k: iter([record]))
    found = present_jobs.job_now("1")
    assert found is not None
    assert (found.state, found.waits_for, found.elapsed_s) == (state, waits, elapsed_s)
    assert (found.start_s is None) == ("N/A" in line)


@pytest.mark.parametrize("text", ["", "garbage", "a|b|c"])
def test_a_line_that_is_none_is_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(commands, "run", lambda *_a, **_k: text)
    assert present_jobs.job_now("1") is None


def test_learning_by_hand(jobs: SiteJobs) -> None:
    store = jobs.store.name
    job = jobs.job("app", 200, at_s=None)
    done = CliRunner().invoke(learn, ["--store", store], catch_exceptions=False)
    assert "looked at" in done.output
    refused = CliRunner().invoke(learn, ["--store", store, "--without", "none"])
    assert refused.exit_code != 0
    assert "nothing was learnt from job none" in str(refused.exception)
    assert job


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"code": "prior-only", "excluded": "a prior only", "predicted_s": [1, 1.94, 3]},
            "1.94 s is only a guess, which Berth does not act on: a prior only",
        ),
        (
            {"code": "prior-only", "excluded": "a prior only"},
            "there is only a guess, which Berth does not act on: a prior only",
        ),
        (
            {"code": "memory", "excluded": "it may need 9 GiB", "predicted_s": [1, 2, 3]},
            "ruled out: it may need 9 GiB (predicted 2 s)",
        ),
        ({"code": "other-gres", "excluded": "you asked for gpu"}, "ruled out: you asked for gpu"),
        ({"score": 4.0, "runtime_s": [1, 2, 3]}, "predicted 2 s"),
        ({"score": 4.0}, "it fits, but ranks far behind"),
        (
            {
                "score": 4.0,
                "runtime_s": [1, 2, 3],
                "makespan": {"tasks": 4, "at_once": 2, "wait_s": 0.0, "seconds": 4.0},
            },
            "predicted 2 s (4 tasks, 2 at a time: 4 s)",
        ),
    ],
)
def test_what_another_place_would_have_meant_is_said_as_it_was(
    row: dict[str, object], sentence: str
) -> None:
    one = _elsewhere({"candidate": "gpu", "platform": "p", **row})
    assert others_sentences([one]) == [f"gpu instead: {sentence}"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"action": "edit"}, "why there: gpu is fastest."),
        (
            {"action": "keep", "mode": "shadow", "edits": '{"queue":"gpu"}'},
            "left as it was asked (mode shadow); Berth would choose: gpu is fastest.",
        ),
        (
            {"action": "keep", "edits": "{}"},
            "why there: it asked for what Berth would choose; gpu is fastest.",
        ),
        (
            {"action": "keep", "chosen": None, "code": "down", "reason": "Left as it is: x."},
            "left as it was asked (down, mode enforce): x.",
        ),
    ],
)
def test_what_berth_did_is_told_from_what_it_would_have_done(
    jobs: SiteJobs, changes: dict[str, str | None], sentence: str
) -> None:
    jobs.job("app", 120)
    record = jobs.store.decisions.last(1)[0]
    reason = {"reason": "gpu is fastest.", "chosen": "gpu", "mode": "enforce"}
    assert decided_sentence(dataclasses.replace(record, **{**reason, **changes})) == sentence
    assert "it opted out (berth:off), was submitted without Berth" in decided_sentence(None)


def test_a_job_that_somebody_moved_again_is_not_where_berth_says(jobs: SiteJobs) -> None:
    jobs.job("app", 120)
    edit = {"action": "edit", "edits": '{"queue":"gpu,old"}', "reason": "gpu is fastest."}
    record = dataclasses.replace(jobs.store.decisions.last(1)[0], **edit)
    for queue in (None, "gpu,old", "old"):
        assert decided_sentence(record, queue) == "why there: gpu is fastest."
    moved = "moved again since Berth sent it to gpu,old: gpu is fastest."
    assert decided_sentence(record, "auto") == moved
