"""What became of Slurm's jobs, from accounting and controller, and from broken ones."""

from __future__ import annotations

import pytest
from fake_commands import FakeCommands
from fake_slurm import accounted, remembered
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import SchedulerError
from berth.pilot.run import Run
from berth.plugin.slurm.accounting import REMEMBERED_FIELDS, ended, remembered_in
from berth.plugin.slurm.present_jobs import rows
from berth.plugin.slurm.scheduler import Slurm

BEGIN_S = 1_795_284_000
"""2026-11-21T18:00:00 UTC."""
END_S = BEGIN_S + 71
STAMP = "berth/1 id=1m7y4whj8kbbvxmm action=edit code=placed to=gpu"
HOUR = (BEGIN_S - 3600, BEGIN_S + 3600)


def told(outcome: Run) -> tuple[object, ...]:
    return (
        outcome.state, outcome.user, outcome.decision, outcome.exit_status, outcome.submit_s,
        outcome.start_s, outcome.end_s, outcome.elapsed_s, outcome.nodes, outcome.cores,
        outcome.gpus, outcome.time_limit_s,
    )  # fmt: skip


WHOLE = (
    "completed", "alice", "1m7y4whj8kbbvxmm", 0, BEGIN_S, BEGIN_S + 10, END_S, 61.0,
    1, 4, 2, 3600.0,
)  # fmt: skip


def test_accounting_and_controller_tell_the_same_of_a_job(slurm: FakeCommands) -> None:
    slurm.says("sacct", accounted("7", AdminComment=STAMP))
    slurm.says("squeue", remembered("7", admin_comment=STAMP))
    (of_accounting,) = ended(*HOUR, {}).outcomes
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says("sacct", "")
    (of_controller,) = ended(*HOUR, {}).outcomes
    assert told(of_accounting) == told(of_controller) == WHOLE
    assert (of_accounting.job_id, of_controller.job_id) == ("7", "7")


def test_the_users_own_time_zone_changes_nothing(
    slurm: FakeCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    slurm.says("sacct", accounted("7"))
    assert ended(*HOUR, {}).outcomes[0].end_s == END_S
    call = next(call for call in slurm.calls if call.startswith("sacct"))
    assert "-S 2026-11-21T17:00:00 -E 2026-11-21T19:00:01" in call


def test_steps_add_their_peak_memory_to_their_job(slurm: FakeCommands) -> None:
    steps = [accounted("7.batch", MaxRSS=2048), accounted("7.0", MaxRSS=4096), accounted("8.0")]
    slurm.says("sacct", accounted("7") + "".join(steps) + accounted("9", "OUT_OF_MEMORY"))
    found = Slurm().outcomes(("7", "9"))
    assert {job: o.peak_bytes for job, o in found.items()} == {"7": 2048 + 4096, "9": None}
    assert found["9"].state == "out-of-memory"


def test_gpu_memory_is_that_of_a_gpu_beside_the_hosts(slurm: FakeCommands) -> None:
    used = "cpu=00:01:00,gres/gpumem=2000,mem=9G"
    slurm.says(
        "sacct",
        accounted("7") + accounted("7.batch", MaxRSS=3000, TRESUsageInMax="gres/gpumem=0,mem=3K")
        + accounted("7.0", MaxRSS=100, NTasks=4, TRESUsageInMax=used)
        + accounted("8") + accounted("8.0", MaxRSS=4096, TRESUsageInMax="odd"),
    )  # fmt: skip
    found = Slurm().outcomes(("7", "8"))
    assert (found["7"].peak_bytes, found["7"].gpu_peak_bytes) == (3000 + 4 * 100, 4000)
    assert (found["8"].peak_bytes, found["8"].gpu_peak_bytes) == (4096, None)


def test_memory_is_that_of_a_node_and_of_each_task_of_an_array(slurm: FakeCommands) -> None:
    """MaxRSS is of the largest of a step's processes: eight on two nodes, four on each."""
    slurm.says(
        "sacct",
        accounted("7_0") + accounted("7_0.0", MaxRSS=1000, NTasks=8, NNodes=2)
        + accounted("7_1") + accounted("7_1.batch", MaxRSS=3000, NTasks=1)
        + accounted("7_1.0", MaxRSS=500)
        + accounted("7_2") + accounted("7_2.0", MaxRSS=500, NTasks="x"),
    )  # fmt: skip
    found = Slurm().outcomes(("7_0", "7_1", "7_2"))
    peaks = {job: o.peak_bytes for job, o in found.items()}
    assert peaks == {"7_0": 4000, "7_1": 3500, "7_2": None}


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
        ({"AdminComment": "somebody else's note"}, "decision", ""),  # in the stamp's place
        ({"AdminComment": f"note | with bars; {STAMP}"}, "decision", "1m7y4whj8kbbvxmm"),
    ],
)
def test_each_field_is_read_as_slurm_writes_it(
    slurm: FakeCommands, fields: dict[str, object], name: str, value: object
) -> None:
    slurm.says("sacct", accounted("7", **fields))
    assert getattr(Slurm().outcomes(("7",))["7"], name) == value


def test_what_is_known_or_not_over_is_left_out(slurm: FakeCommands) -> None:
    late = accounted("10", End="2026-11-21T23:00:00")
    lines = [accounted("7"), accounted("8"), accounted("9", "RUNNING", End="Unknown"), late]
    slurm.says("sacct", "".join(lines))
    assert [o.job_id for o in ended(*HOUR, {"7": END_S}).outcomes] == ["8"]
    assert [o.job_id for o in ended(*HOUR, {"7": END_S - 60}).outcomes] == ["7", "8"]  # requeued


def test_array_tasks_have_the_id_that_users_see_and_their_own_number(slurm: FakeCommands) -> None:
    """A slurmdbd that has just heard of an array task calls it 9, and 7_2 a little later."""
    slurm.says("sacct", accounted("7_2", JobIDRaw="9"))
    slurm.says("squeue", remembered("7_2", JobID=9))
    for _ in ("accounting", "controller"):
        assert [(o.job_id, o.raw_id) for o in ended(*HOUR, {}).outcomes] == [("7_2", "9")]
        assert ended(*HOUR, {"7_2": END_S}).outcomes == ()
        asked = Slurm().outcomes(("7_2", "9"))
        assert {name: o.job_id for name, o in asked.items()} == {"7_2": "7_2", "9": "9"}
        slurm.fails("sacct", "Slurm accounting storage is disabled")


def test_gpus_that_are_not_accounted_for_are_those_that_were_asked(slurm: FakeCommands) -> None:
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    asked = {"tres-alloc": "cpu=4,node=2", "tres-per-node": "gres:gpu:h200:3"}
    slurm.says("squeue", remembered("7", NumNodes=2, **asked))
    assert ended(*HOUR, {}).outcomes[0].gpus == 6


def test_an_accounting_that_is_down_is_waited_for(slurm: FakeCommands) -> None:
    """Not so for jobs that somebody asks about by name: there the controller helps out."""
    slurm.fails("sacct", "error: slurmdbd: Connection refused")
    slurm.says("squeue", remembered("7", admin_comment=STAMP))
    with pytest.raises(SchedulerError, match="Connection refused"):
        ended(*HOUR, {})
    assert Slurm().outcomes(("7",))["7"].state == "completed"


def test_a_garbled_line_hides_no_other(slurm: FakeCommands) -> None:
    slurm.says("sacct", "garbage\n" + accounted("7") + accounted("8", "ODD"))
    found = ended(*HOUR, {})
    assert [o.job_id for o in found.outcomes] == ["7"]
    assert found.problem == (
        "sacct answered something unreadable: line 2: 1 fields where the header has 29: 'garbage'"
    )


def test_jobs_that_the_controller_has_forgotten_have_no_outcome(slurm: FakeCommands) -> None:
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says("squeue", remembered("7", admin_comment=STAMP))
    assert told(Slurm().outcomes(("7",))["7"]) == WHOLE
    assert Slurm().outcomes(("8",)) == {}
    assert Slurm().outcomes(()) == {}


def test_suspended_time_does_not_count_and_signals_are_told(slurm: FakeCommands) -> None:
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    slurm.says("squeue", remembered("7", "FAILED", TimeUsed="0:25", exit_code=9))
    (found,) = ended(*HOUR, {}).outcomes
    assert (found.elapsed_s, found.exit_status) == (25.0, 137)
    slurm.says("squeue", remembered("7", "FAILED", exit_code="3:0"))  # from 23.02 on
    assert ended(*HOUR, {}).outcomes[0].exit_status == 3


@given(st.text())
def test_any_answer_of_squeue_is_read(text: str) -> None:
    records = list(rows(text, "|", REMEMBERED_FIELDS))
    assert all(record.keys() == set(REMEMBERED_FIELDS) for record in records)
    remembered_in(records)
