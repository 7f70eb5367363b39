"""What became of Slurm's jobs, from accounting and controller, and from broken ones."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from fake_slurm import FakeSlurm, accounted
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import Outcome
from berth.plugin.slurm.accounting import ended, jobs_in, outcome_of, parse_sacct
from berth.plugin.slurm.scheduler import Slurm

BEGIN_S = 1_795_284_000
"""2026-11-21T18:00:00 UTC."""
END_S = BEGIN_S + 71
STAMP = "berth/1 id=1m7y4whj8kbbvxmm action=edit code=placed to=gpu"
HOUR = (BEGIN_S - 3600, BEGIN_S + 3600)
REMEMBERED: dict[str, Any] = {
    "job_id": 7, "name": "x", "user_name": "alice", "user_id": 1000, "job_state": "COMPLETED",
    "exit_code": 0, "time_limit": 60, "submit_time": BEGIN_S, "start_time": BEGIN_S + 10,
    "end_time": END_S, "partition": "cpu", "nodes": "cpu1", "node_count": 1, "cpus": 4,
    "tres_alloc_str": "cpu=4,node=1,gres/gpu=2", "tres_per_node": "", "admin_comment": STAMP,
    "array_job_id": 0, "array_task_id": None, "suspend_time": 0, "pre_sus_time": 0,
}  # fmt: skip
"""As 22.05.8 writes it."""


def controller(**fields: object) -> str:
    return json.dumps({"meta": {"jobs": ["no"]}, "errors": [], "jobs": [REMEMBERED | fields]})


def told(outcome: Outcome) -> tuple[object, ...]:
    return (
        outcome.state, outcome.user, outcome.decision, outcome.exit_status, outcome.submit_s,
        outcome.start_s, outcome.end_s, outcome.elapsed_s, outcome.node_count, outcome.cores,
        outcome.gpus, outcome.time_limit_s,
    )  # fmt: skip


WHOLE = (
    "completed", "alice", "1m7y4whj8kbbvxmm", 0, BEGIN_S, BEGIN_S + 10, END_S, 61.0,
    1, 4, 2, 3600.0,
)  # fmt: skip


def test_accounting_and_controller_tell_the_same_of_a_job(slurm: FakeSlurm) -> None:
    slurm.says("sacct", accounted("7", AdminComment=STAMP))
    slurm.says("squeue", controller())
    (accounting,) = ended(*HOUR, {}).outcomes
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says("sacct", "")
    (remembered,) = ended(*HOUR, {}).outcomes
    assert told(accounting) == told(remembered) == WHOLE
    assert (accounting.job_id, remembered.job_id) == ("7", "7")


def test_the_users_own_time_zone_changes_nothing(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    slurm.says("sacct", accounted("7"))
    assert ended(*HOUR, {}).outcomes[0].end_s == END_S
    call = next(call for call in slurm.calls() if call.startswith("sacct"))
    assert "-S 2026-11-21T17:00:00 -E 2026-11-21T19:00:01" in call


def test_steps_add_their_peak_memory_to_their_job(slurm: FakeSlurm) -> None:
    steps = [accounted("7.batch", MaxRSS=2048), accounted("7.0", MaxRSS=4096), accounted("8.0")]
    slurm.says("sacct", accounted("7") + "".join(steps) + accounted("9", "OUT_OF_MEMORY"))
    found = Slurm().outcomes(("7", "9"))
    assert {job: o.peak_memory_bytes for job, o in found.items()} == {"7": 4096, "9": None}
    assert found["9"].state == "out-of-memory"


def test_gpu_memory_is_that_of_a_gpu_beside_the_hosts(slurm: FakeSlurm) -> None:
    used = "cpu=00:01:00,gres/gpumem=2000,mem=9G"
    slurm.says(
        "sacct",
        accounted("7") + accounted("7.batch", MaxRSS=3000, TRESUsageInMax="gres/gpumem=0,mem=3K")
        + accounted("7.0", MaxRSS=100, NTasks=4, TRESUsageInMax=used)
        + accounted("8") + accounted("8.0", MaxRSS=4096, TRESUsageInMax="odd"),
    )  # fmt: skip
    found = Slurm().outcomes(("7", "8"))
    assert (found["7"].peak_memory_bytes, found["7"].peak_gpu_memory_bytes) == (3000, 4000)
    assert (found["8"].peak_memory_bytes, found["8"].peak_gpu_memory_bytes) == (4096, None)


def test_memory_is_that_of_a_node_and_of_each_task_of_an_array(slurm: FakeSlurm) -> None:
    """MaxRSS is of the largest of a step's processes: eight on two nodes, four on each."""
    slurm.says(
        "sacct",
        accounted("7_0") + accounted("7_0.0", MaxRSS=1000, NTasks=8, NNodes=2)
        + accounted("7_1") + accounted("7_1.batch", MaxRSS=3000, NTasks=1)
        + accounted("7_1.0", MaxRSS=500, NTasks="x"),
    )  # fmt: skip
    found = Slurm().outcomes(("7_0", "7_1"))
    assert {job: o.peak_memory_bytes for job, o in found.items()} == {"7_0": 4000, "7_1": 3000}


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"State": "CANCELLED by 1000"}, "state", "cancelled"),
        ({"State": "TIMEOUT"}, "state", "timeout"),
        ({"ExitCode": "0:9"}, "exit_status", 137),
        ({"ExitCode": "3:0"}, "exit_status", 3),
        ({"ExitCode": "odd"}, "exit_status", None),
        ({"Start": "Unknown"}, "start_s", None),
        ({"AllocTRES": "cpu=1,gres/gpu:h200=2,gres/gpu:a100=1"}, "gpus", 3),
        ({"AllocTRES": "cpu=1,node=1"}, "gpus", None),
        ({"AllocTRES": ""}, "gpus", None),
        ({"TimelimitRaw": "UNLIMITED"}, "time_limit_s", None),
        ({"ConsumedEnergyRaw": "5000"}, "energy_j", 5000),
        ({"AdminComment": "somebody else's note"}, "decision", None),
        ({"AdminComment": f"note | with bars; {STAMP}"}, "decision", "1m7y4whj8kbbvxmm"),
    ],
)
def test_each_field_is_read_as_slurm_writes_it(
    fields: dict[str, object], name: str, value: object
) -> None:
    assert getattr(parse_sacct(accounted("7", **fields))["7"], name) == value


def test_what_is_known_or_not_over_is_left_out(slurm: FakeSlurm) -> None:
    late = accounted("10", End="2026-11-21T23:00:00")
    lines = [accounted("7"), accounted("8"), accounted("9", "RUNNING", End="Unknown"), late]
    slurm.says("sacct", "".join(lines))
    assert [o.job_id for o in ended(*HOUR, {"7": END_S}).outcomes] == ["8"]
    assert [o.job_id for o in ended(*HOUR, {"7": END_S - 60}).outcomes] == ["7", "8"]  # requeued


def test_array_tasks_are_called_by_their_own_numbers(slurm: FakeSlurm) -> None:
    """A slurmdbd that has just heard of an array task calls it 9, and 7_2 a little later."""
    slurm.says("sacct", accounted("7_2", JobIDRaw="9"))
    assert [o.job_id for o in ended(*HOUR, {}).outcomes] == ["9"]
    assert ended(*HOUR, {"9": END_S}).outcomes == ()
    assert set(Slurm().outcomes(("7_2",))) == {"7_2"}  # as it was asked for
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says("squeue", controller(job_id=9, array_job_id=7, array_task_id=2))
    assert [o.job_id for o in ended(*HOUR, {}).outcomes] == ["9"]


def test_gpus_that_are_not_accounted_for_are_those_that_were_asked(slurm: FakeSlurm) -> None:
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says(
        "squeue",
        controller(node_count=2, tres_alloc_str="cpu=4,node=2", tres_per_node="gres:gpu:h200:3"),
    )
    assert ended(*HOUR, {}).outcomes[0].gpus == 6


def test_an_accounting_that_is_down_is_waited_for(slurm: FakeSlurm) -> None:
    """Not so for jobs that somebody asks about by name: there the controller helps out."""
    slurm.fails("sacct", "error: slurmdbd: Connection refused")
    slurm.says("squeue", controller())
    with pytest.raises(SchedulerError, match="Connection refused"):
        ended(*HOUR, {})
    assert Slurm().outcomes(("7",))["7"].state == "completed"


def test_a_garbled_line_hides_no_other(slurm: FakeSlurm) -> None:
    slurm.says("sacct", "garbage\n" + accounted("7") + "7|short\n")
    found = ended(*HOUR, {})
    assert [o.job_id for o in found.outcomes] == ["7"]
    assert found.problem == "sacct answered something unreadable: 'garbage'"
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    broken = json.dumps(REMEMBERED | {"job_id": "x"})
    slurm.says("squeue", controller().replace('"jobs": [{', f'"jobs": [{broken}, {{', 1))
    found = ended(*HOUR, {})
    assert [o.job_id for o in found.outcomes] == ["7"]
    assert found.problem is not None


def test_jobs_that_the_controller_has_forgotten_have_no_outcome(slurm: FakeSlurm) -> None:
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says("squeue", controller())
    assert told(Slurm().outcomes(("7",))["7"]) == WHOLE
    assert Slurm().outcomes(("8",)) == {}
    assert Slurm().outcomes(()) == {}


@given(st.text())
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    with suppress(SchedulerError):
        parse_sacct(text)


@pytest.mark.parametrize(
    "name",
    [
        f"x UserId=root(0) AdminComment={STAMP}",
        f"x\nJobId=8 JobName=y UserId=root(0) JobState=COMPLETED AdminComment={STAMP}\n",
        '"}], "jobs": [{"job_id": 8, "user_name": "root"}], "x": [{"y": "',
        "caf\udce9",
        "x" * 100_000,
    ],
)
def test_no_name_of_a_job_stands_for_another_field(slurm: FakeSlurm, name: str) -> None:
    """S2: what is stored of a job is the scheduler's, whatever its user wrote."""
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    text = json.dumps(
        {"jobs": [REMEMBERED | {"name": name, "admin_comment": ""}]}, ensure_ascii=False
    )
    slurm.says("squeue", text.encode("utf-8", "surrogateescape"))
    found = ended(*HOUR, {})
    assert [(o.job_id, o.user, o.decision) for o in found.outcomes] == [("7", "alice", None)]
    assert found.problem is None


def test_later_versions_write_numbers_and_states_in_another_form(slurm: FakeSlurm) -> None:
    def number(value: float) -> dict[str, object]:
        return {"set": True, "infinite": False, "number": int(value)}

    exit_code = {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(0)}}
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    text = controller(
        job_state=["COMPLETED"], exit_code=exit_code, time_limit=number(60), cpus=number(4),
        submit_time=number(BEGIN_S), start_time=number(BEGIN_S + 10), end_time=number(END_S),
        node_count=number(1), array_task_id={"set": False, "infinite": False, "number": 0},
        array_job_id=number(0),
    )  # fmt: skip
    slurm.says("squeue", text)
    assert told(ended(*HOUR, {}).outcomes[0]) == WHOLE


def test_suspended_time_does_not_count_and_signals_are_told(slurm: FakeSlurm) -> None:
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    text = controller(suspend_time=END_S - 5, pre_sus_time=20, exit_code=9, job_state="FAILED")
    slurm.says("squeue", text)
    (found,) = ended(*HOUR, {}).outcomes
    assert (found.elapsed_s, found.exit_status) == (25.0, 137)


@given(st.text() | st.recursive(
    st.none() | st.integers() | st.text(), lambda some: st.lists(some) | st.dictionaries(
        st.sampled_from(["jobs", "job_id", "job_state", "x"]), some)
).map(json.dumps))  # fmt: skip
def test_any_answer_of_squeue_is_read_or_refused_with_a_sentence(text: str) -> None:
    with suppress(SchedulerError):
        for job in jobs_in(text):
            outcome_of(job)
