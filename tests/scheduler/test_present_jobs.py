"""The jobs that run and wait at present, from real schedulers and from odd answers."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest
from cases import Case
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import present_jobs as by_flux
from berth.plugin.replay.live import expected_times, next_hours, wait_tables
from berth.plugin.replay.present import present_queue
from berth.plugin.scheduler import Job, PresentJob
from berth.plugin.slurm import present_jobs as by_squeue
from berth.policies.replay import Settings
from berth.policies.values import Candidate, Request, Resources

BAR = "<bar>"
ROW = {
    "JobArrayID": "7_2", "State": "PENDING", "Partition": "cpu,gpu", "UserName": "ada",
    "Account": "(null)", "NumNodes": "2-4", "NumCPUs": "8", "NumTasks": "2",
    "TimeLimit": "1-00:00:00", "SubmitTime": "2026-11-22T10:00:00", "StartTime": "N/A",
    "Reason": "Priority", "PriorityLong": "42", "tres": "cpu=8,node=2",
    "tres-per-node": "gres:gpu:h200:2", "tres-per-job": "N/A", "tres-per-task": "N/A",
    "NodeList": "", "admin_comment": "berth/1 id=abc12 action=edit", "Name": "a|b\n8",
    "Dependency": "(null)",
}  # fmt: skip


def squeue(*rows: dict[str, str]) -> str:
    return "".join("".join(f"{row[f]}{BAR}" for f in by_squeue.FIELDS) + "\n" for row in rows)


def test_a_submitted_job_is_present_until_it_ends(
    live_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    begin_s = time.time()
    request = Request("", None, Resources(1, 2, 1), queue=live_case.cpu, time_limit_s=60.0)
    words = ("sh", "-c", f"until [ -e {tmp_path}/end ]; do sleep 0.1; done")
    job_id = live_case.scheduler.submit(
        live_case.scheduler.render(Job(words, is_script=False), request, None)
    ).replace("ƒ", "f")

    def found() -> PresentJob | None:
        jobs = live_case.scheduler.present_jobs()
        return next((one for one in jobs if one.job_id.replace("ƒ", "f") == job_id), None)

    until_s = time.monotonic() + 60
    while (job := found()) is None or not job.running:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    assert (job.queues, job.time_limit_s, job.gpus) == ((live_case.cpu,), 60.0, 0)
    assert job.cores >= 2
    assert job.user
    assert job.start_s is not None
    assert begin_s - 2 <= job.submit_s <= job.start_s <= time.time() + 1
    assert set(job.node_names) <= {node.name for node in live_case.scheduler.read().nodes}
    assert len(job.node_names) == job.nodes == 1
    assert_replayed(live_case, job)
    (tmp_path / "end").touch()
    while found() is not None:
        assert time.monotonic() < until_s
        time.sleep(0.1)


def assert_replayed(case: Case, running: PresentJob) -> None:
    """The queue can be replayed forward, and the room that the job holds is free when it ends."""
    jobs, facts = case.scheduler.present_jobs(), case.scheduler.read()
    here = [node for node in facts.nodes if case.cpu in node.queues and node.usable]
    place = Candidate("here", "quartz", case.cpu, cores_per_node=here[0].cores, nodes=len(here))
    present = present_queue(facts, jobs, (place,))
    assert running.job_id in {one.job_id for one in present.jobs[: present.queue.running]}
    assert present.running >= 1
    known = expected_times(present, None, (place,))
    table = wait_tables(next_hours(present, Settings(), known), present, (place,))["here"]
    assert table.units[-1] == sum(node.cores for node in here)
    all_of_it = table.at(table.units[-1], 60.0)
    assert 0 < all_of_it.mid < math.inf
    assert all_of_it.low <= all_of_it.mid <= all_of_it.high


def parsed(text: str) -> tuple[PresentJob, ...]:
    """The jobs in squeue's text."""
    return by_squeue.parse(by_squeue.rows(text, BAR, by_squeue.FIELDS))


def test_squeues_fields() -> None:
    running = {**ROW, "State": "RUNNING", "NodeList": "n[1-2]", "Reason": "None",
               "StartTime": "2026-11-22T11:00:00", "tres": "cpu=8,gres/gpu=3"}  # fmt: skip
    reserved = {**ROW, "Reason": "(ReqNodeNotAvail, Reserved for maintenance)"}
    assert parsed(squeue(reserved))[0].may_start
    held, gone = {**ROW, "Reason": "JobHeldUser"}, {**ROW, "State": "COMPLETED"}
    waits, runs, stays = parsed(squeue(ROW, running, held, gone))
    assert waits == PresentJob(
        "7_2", "ada", ("cpu", "gpu"), False, 8, 1795341600.0, name="a|b\n8", nodes=2, gpus=4,
        priority=42.0, time_limit_s=86400.0, decision="abc12",
    )  # fmt: skip
    assert (runs.node_names, runs.gpus, runs.start_s) == (("n1", "n2"), 3, 1795345200.0)
    assert (runs.may_start, stays.may_start) == (True, False)


def test_squeues_memory_is_of_a_node() -> None:
    sizes = {"cpu=8,mem=7.50G,node=2": 3.75 * 2**30, "mem=512M": 2**28, "cpu=8": 0, "mem=x": 0}
    found = parsed(squeue(*({**ROW, "tres": tres} for tres in sizes)))
    assert [job.memory_bytes for job in found] == list(sizes.values())


@pytest.mark.parametrize(
    ("dependency", "after"),
    [("afterok:7_2(unfulfilled)", ("7_2",)), ("afterany:6:7(unfulfilled)", ("6", "7_3")),
     ("afterok:7_*(unfulfilled),singleton(unfulfilled)", ("7_3", "8")),
     ("aftercorr:7_*(unfulfilled)", ("7_2",)), ("afterok:5(unfulfilled)", ()),
     ("after:6(unfulfilled)", ()), ("afterok:6(unfulfilled),after:7_2(unfulfilled)", ()),
     ("(null)", ()), ("afterok:", ())],
)  # fmt: skip
def test_squeues_dependencies(dependency: str, after: tuple[str, ...]) -> None:
    ids = ("7_3", "6", "7_2", "8")
    waits = {**ROW, "JobArrayID": "9_2", "Reason": "Dependency", "Dependency": dependency}
    rows = [{**ROW, "JobArrayID": one, "Name": "" if one != "8" else ROW["Name"]} for one in ids]
    *_, job = parsed(squeue(*rows, waits))
    assert (job.after, job.may_start) == (after, bool(after))


def test_what_a_user_writes_adds_no_job() -> None:
    forged = {**ROW, "Name": squeue({**ROW, "UserName": "eve"}).replace(BAR, "|")}
    assert [job.user for job in parsed(squeue(forged, ROW))] == ["ada", "ada"]


@given(st.text(max_size=200))
def test_any_text_of_squeue_is_jobs_or_one_sentence(text: str) -> None:
    try:
        assert isinstance(parsed(text.replace("|", BAR)), tuple)
    except SchedulerError as error:
        assert "\n" not in error.message


@pytest.mark.parametrize(
    "text",
    ["", "no", "[]", "7", '{"jobs": [{}]}', '{"jobs": 3}', "[" * 5000,
     json.dumps({"jobs": [{"state": "RUN", "id": 1, "userid": 0, "t_submit": "x"}]}),
     json.dumps({"jobs": [{"state": "RUN", "id": 1, "userid": 0, "t_submit": 10**400}]}),
     json.dumps({"jobs": [{"state": "RUN", "id": 1, "userid": 0, "ncores": float("inf")}]})],
)  # fmt: skip
def test_what_flux_cannot_have_written_is_one_sentence(text: str) -> None:
    with pytest.raises(SchedulerError):
        by_flux.parse(text)


def test_fluxs_fields() -> None:
    job = {"id": 1, "jobid": "ƒ1", "state": "SCHED", "userid": 5, "t_submit": 10.0, "ntasks": 2,
           "urgency": 16, "priority": 16, "duration": 0.0, "name": "x"}  # fmt: skip
    first, held = by_flux.parse(json.dumps({"jobs": [job, {**job, "urgency": 0}]}))
    assert (first.job_id, first.user, first.cores, first.time_limit_s) == ("ƒ1", "5", 2, None)
    assert (first.may_start, held.may_start) == (True, False)


def test_fluxs_dependencies() -> None:
    job = {"id": 1, "jobid": "ƒ2", "state": "SCHED", "userid": 5, "t_submit": 10.0}
    waits = {**job, "jobid": "ƒ3", "state": "DEPEND", "dependencies": ["after-success=ƒ2"]}
    other = {**waits, "dependencies": ["begin-time=1795341600.000"]}
    gone = {**waits, "dependencies": ["after-success=ƒ9"]}
    held = {**waits, "urgency": 0}
    found = by_flux.parse(json.dumps({"jobs": [job, waits, other, gone, held]}))
    assert [one.after for one in found] == [(), ("ƒ2",), (), (), ()]
    assert [one.may_start for one in found] == [True, True, False, False, False]
