"""What every scheduler promises, whichever it is."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from berth_daemon import wait_until
from cases import Case
from fake_slurm import accounted

from berth.pilot.errors import SchedulerError, ToolMissing, UsageError
from berth.pilot.run import Run
from berth.plugin.scheduler import SCHEDULERS, Job, scheduler_named, states_of
from berth.policies.values import Candidate, Edit, Request, Resources

STATES = {
    "pending",
    "running",
    "completed",
    "failed",
    "timeout",
    "out-of-memory",
    "cancelled",
    "unknown",
}
ONE = Resources(0, 1, 1)


def asked(**changes: object) -> Request:
    values: dict[str, object] = {"user": "ada", "account": None, "resources": ONE}
    return Request(**{**values, **changes})  # type: ignore[arg-type]


def test_each_is_known_by_its_name(case: Case) -> None:
    assert case.scheduler.name in SCHEDULERS.names()
    assert type(case.scheduler) is SCHEDULERS.load(case.scheduler.name)
    assert case.scheduler.title
    with pytest.raises(UsageError, match="there is no scheduler 'slurms'") as unknown:
        scheduler_named("slurms")
    assert unknown.value.hint == "did you mean 'slurm'? known: slurm, flux"


def test_a_reading_makes_sense(case: Case) -> None:
    facts = case.scheduler.read()
    assert abs(facts.as_of_s - time.time()) < 60
    assert any(character.isdigit() for character in facts.version)
    assert {case.cpu, case.gpu} <= set(facts.queues)
    assert sum(queue.is_default for queue in facts.queues.values()) <= 1
    assert all(queue.name == name for name, queue in facts.queues.items())
    assert len({node.name for node in facts.nodes}) == len(facts.nodes) > 0
    for node in facts.nodes:
        assert set(node.queues) <= set(facts.queues)
        assert 0 <= node.idle_cores <= node.cores
        assert node.memory_bytes > 0
        assert set(node.idle_gpus) <= set(node.gpus)
        assert all(0 <= n <= node.gpus[gpu] for gpu, n in node.idle_gpus.items())
    with_gpus = [node for node in facts.nodes if case.gpu in node.queues]
    assert all(node.gpus.get(case.gres, 0) > 0 for node in with_gpus)
    assert with_gpus


def test_candidates_have_a_state_and_unknown_queues_are_down(case: Case) -> None:
    gpu = Candidate(
        "gpu", "p", case.gpu, gres=case.gres, gpus_per_node=1, targets=("cuda",), nodes=1
    )
    candidates = (Candidate("cpu", "p", case.cpu), gpu, Candidate("gone", "p", "no-such-queue"))
    states = states_of(case.scheduler.read(), candidates)
    assert states["cpu"].up
    assert states["cpu"].usable_nodes
    assert states["gpu"].usable_nodes
    assert not states["gone"].up


def test_rendering_is_pure_and_keeps_the_words(case: Case, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    edit = Edit(queue=case.gpu, gres=f"{case.gres}:1", resources=Resources(1, 1, 4, 1))
    request = asked(queue="auto", wants_placement=True, time_limit_s=600.0)
    for job in (Job((str(script), "a b"), is_script=True), Job(("true", "a b"), is_script=False)):
        command = case.scheduler.render(job, request, edit)
        assert command == case.scheduler.render(job, request, edit)
        assert not any("auto" in word for word in command)
        assert any(word.endswith(f"={case.gpu}") for word in command)
        assert command[-1] == "a b" or command[-1].endswith("'a b'")


def test_without_an_edit_the_request_goes_out_as_it_was(case: Case) -> None:
    request = asked(queue=case.cpu, features="big", account="physics", resources=Resources(0, 4, 2))
    text = " ".join(case.scheduler.render(Job(("true",), is_script=False), request, None))
    for part in (f"={case.cpu} ", "=big ", "=physics ", "=4 ", "=2 "):
        assert part in f"{text} "


def test_a_submitted_job_has_an_outcome_and_an_unknown_one_none(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    request = asked(queue=case.cpu, time_limit_s=60.0)
    job_id = case.scheduler.submit(
        case.scheduler.render(Job(("true",), is_script=False), request, None)
    )
    found = case.scheduler.outcomes([job_id])
    assert set(found) == {job_id}
    outcome = found[job_id]
    assert outcome.job_id == job_id
    assert outcome.state in STATES
    assert outcome.partition in (case.cpu, case.gpu)
    assert outcome.elapsed_s >= 0
    assert case.scheduler.outcomes([]) == {}


def test_a_submitted_job_has_its_submitters_environment(
    live_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    for name, value in (("LC_ALL", "C.UTF-8"), ("VIRTUAL_ENV", "/mine"), ("TZ", "Asia/Tokyo")):
        monkeypatch.setenv(name, value)
    words = ("sh", "-c", f"env > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/environment")
    request = asked(queue=live_case.cpu, time_limit_s=60.0)
    live_case.scheduler.submit(
        live_case.scheduler.render(Job(words, is_script=False), request, None)
    )
    wait_until((tmp_path / "environment").exists, timeout_s=60)
    found = (tmp_path / "environment").read_text().splitlines()
    assert {"LC_ALL=C.UTF-8", "VIRTUAL_ENV=/mine", "TZ=Asia/Tokyo"} <= set(found)
    assert "SLURM_TIME_FORMAT=standard" not in found


def test_a_job_that_has_ended_is_told_of_until_it_is_known(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begin_s = time.time()
    if case.fake is not None:
        case.fake.says("sacct", accounted("4711", Submit=utc(begin_s), End=utc(begin_s + 1)))
        case.fake.says("ended", json.dumps(ended_on_flux(begin_s + 1)))
    request = asked(queue=case.cpu, time_limit_s=60.0)
    job_id = case.scheduler.submit(
        case.scheduler.render(Job(("true",), is_script=False), request, None)
    ).replace("ƒ", "f")

    def found(known: dict[str, float]) -> dict[str, Run]:
        told = case.scheduler.ended(begin_s - 60, begin_s + 60, known)
        assert told.problem is None
        return {outcome.job_id: outcome for outcome in told.outcomes}

    outcome = wait_until(lambda: found({}).get(job_id), timeout_s=60)
    assert (outcome.state, outcome.exit_status, outcome.decision) == ("completed", 0, None)
    assert outcome.partition == case.cpu
    assert outcome.user
    assert begin_s - 60 < outcome.submit_s <= outcome.end_s < begin_s + 60
    assert outcome.nodes == 1
    if case.fake is not None and case.scheduler.name == "flux":
        return  # there Flux's own Python leaves out what is known
    assert job_id not in found({job_id: outcome.end_s})
    assert case.scheduler.ended(begin_s - 7200, begin_s - 3600, {}).outcomes == ()


def utc(unix_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


def ended_on_flux(end_s: float) -> dict[str, object]:
    times = {f"t_{name}": end_s - 1 for name in ("submit", "run", "cleanup")}
    job = {"state": 64, "result": 1, "waitstatus": 0, "userid": 0, "queue": "cpu", "nnodes": 1}
    return {"id": "f2Ppor5M", "job": {**job, **times, "t_inactive": end_s}, "stamp": None}


def test_a_refused_submission_says_the_schedulers_words(case: Case) -> None:
    if case.fake is not None:
        case.fake.says("sbatch", "")
        case.fake.says("submit", "")
        for name in ("sbatch", "submit"):
            case.fake.fails(name, "error: no-such-queue is invalid")
    request = asked(queue="no-such-queue")
    command = case.scheduler.render(Job(("true",), is_script=False), request, None)
    with pytest.raises(SchedulerError, match=r"(?i)invalid"):
        case.scheduler.submit(command)


# Failures, of those that can be told to fail


def test_a_missing_tool_is_named(fake_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for call in (fake_case.scheduler.read, lambda: fake_case.scheduler.outcomes(["1"])):
        with pytest.raises(ToolMissing) as missing:
            call()
        assert missing.value.hint


READS = {"slurm": ("node", "sbatch", "sacct"), "flux": ("state", "submit", "outcomes")}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff\xfe",
        b"no\n",
        b"{}",
        b"[]",
        b"[" * 5000,
        b'{"config.get": {"error": "no", "errno": 2}}',
        b"NodeName",
    ],
    ids=repr,
)
def test_an_unreadable_answer_is_one_sentence(fake_case: Case, answer: bytes) -> None:
    assert fake_case.fake is not None
    state, submit, _ = READS[fake_case.scheduler.name]
    fake_case.fake.says(state, answer)
    with pytest.raises(SchedulerError):
        fake_case.scheduler.read()
    fake_case.fake.says(submit, answer)
    with pytest.raises(SchedulerError):
        fake_case.scheduler.submit(
            fake_case.scheduler.render(Job(("true",), is_script=False), asked(), None)
        )


def test_a_tool_that_fails_is_one_sentence(fake_case: Case) -> None:
    assert fake_case.fake is not None
    for name in READS[fake_case.scheduler.name]:
        fake_case.fake.fails(name, "Unable to connect to Flux: broker socket was not found\n")
        fake_case.fake.says(name, "")
    with pytest.raises(SchedulerError) as failed:
        fake_case.scheduler.read()
    assert "\n" not in failed.value.message


def test_both_render_the_same_request_alike() -> None:
    """The same numbers in either's words."""
    request = asked(
        queue="gpu", time_limit_s=3600.0, resources=Resources(0, 2, 8, 2), account="physics"
    )
    job = Job(("true",), is_script=False, comment="berth:lu")
    edit = Edit(queue="gpu", gres="gpu:2", resources=Resources(1, 2, 8, 2))
    slurm = scheduler_named("slurm").render(job, request, edit)
    flux = scheduler_named("flux").render(job, request, edit)
    assert {"--partition=gpu", "--nodes=1", "--ntasks=2", "--cpus-per-task=8"} <= set(slurm)
    assert {"--queue=gpu", "--nodes=1", "--ntasks=2", "--cores-per-task=8"} <= set(flux)
    assert {"--gres=gpu:2", "--time=60", "--account=physics", "--comment=berth:lu"} <= set(slurm)
    assert {
        "--gpus-per-task=1",
        "--time-limit=3600s",
        "--bank=physics",
        "--setattr=user.berth.workload=lu",
    } <= set(flux)
    assert json.dumps(slurm) != json.dumps(flux)
