"""The checker of histories finds each bug, and nothing in a history without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from chaos.asked import asked
from chaos.checker import RULES, check
from chaos.history import (
    Call,
    Decision,
    Ended,
    Ending,
    Fault,
    History,
    Job,
    Setting,
    Submission,
    read,
    read_calls,
)
from chaos.wire import GARBLED

JOBS = 60
KILL_S, STOP_S, OFF_S, OVER_S = 110.0, 120.0, 140.0, 150.0


def sound() -> History:
    """A job a second from 100 on: moved, kept, opted out; a killed controller, a hung daemon and
    the kill switch on the way."""
    h = History(
        Setting("slurm", 0.05, 3, 0.5, 2.0), Ending(0, 0, (), ()),
        faults=[
            Fault("controller fails over", KILL_S, KILL_S, KILL_S + 2, KILL_S + 3, KILL_S + 4),
            Fault("stopped", STOP_S, STOP_S, STOP_S + 4, STOP_S + 4, STOP_S + 5),
            Fault("switched off", OFF_S, OFF_S, OFF_S + 4, OFF_S + 4, OFF_S + 4),
        ],
    )  # fmt: skip
    for number in range(JOBS):
        add(h, number, 100.0 + number)
    return h


def add(h: History, number: int, at_s: float) -> None:
    name, decision = f"chaos-{number}", f"id{number}"
    opted_out = number % 10 == 9
    stopped = STOP_S <= at_s < STOP_S + 4
    silent = stopped or OFF_S <= at_s < OFF_S + 4 or opted_out
    before = {"partition": "auto", "min_nodes": 1.0, "num_tasks": 4.0, "name": name}
    moved = not silent and number % 3 == 0
    after = {**before, "partition": "gpu", "num_tasks": 1.0} if moved else before
    stamp = f"berth/1 id={decision} action=keep code=best"
    if moved:
        stamp = (f"JS1:x berth/1 id={decision} action=edit code=placed to=gpu "
                 "was=partition:auto;num_tasks:4;memory_mib_per_node:100")  # fmt: skip
    found = None if silent else stamp
    error = number == 11  # while the controller is away: the user saw an error
    h.submissions.append(
        Submission(
            name, "games", "auto", opted_out, True, at_s, at_s + 0.1, 1 if error else 0,
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller"
            if error else "", None if error else str(number),
        )
    )  # fmt: skip
    h.calls.append(Call(name, at_s, 0.05 if stopped else 0.002, 0, before, after, found))
    h.jobs.append(
        Job(str(number), name, "games", str(after["partition"]), found, "PENDING", "JobHeldUser")
    )
    if found is not None:
        edits = {"queue": "gpu", "tasks": 1} if moved else {}
        action = "edit" if moved else "keep"
        h.decisions.append(Decision(decision, "games", "auto", action, "code", edits))


def of(h: History, number: int) -> Call:
    return h.calls[number]


def put(h: History, number: int, **changed: object) -> None:
    h.calls[number] = replace(h.calls[number], **changed)


def put_job(h: History, number: int, **changed: object) -> None:
    h.jobs[number] = replace(h.jobs[number], **changed)


def rejected_by_the_filter(h: History) -> None:
    put(h, 5, code=2000)


def refused(h: History) -> None:
    said = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    h.submissions[30] = replace(h.submissions[30], status=1, said=said)


def lost(h: History) -> None:
    del h.jobs[40]


def doubled(h: History) -> None:
    h.jobs.append(replace(h.jobs[33], id="1033"))


def held(h: History) -> None:
    h.submissions[7] = replace(h.submissions[7], held=False)


def changed_without_a_stamp(h: History) -> None:
    put(h, 3, stamp=None)


def edits_left_after_a_failure(h: History) -> None:
    put(h, 4, after={**of(h, 4).after, "num_tasks": 1.0})


def was_says_something_else(h: History) -> None:
    put(h, 6, stamp=str(of(h, 6).stamp).replace("num_tasks:4", "num_tasks:-"))


def was_forgets_a_field(h: History) -> None:
    put(h, 6, stamp=str(of(h, 6).stamp).replace("num_tasks:4;", ""))


def opt_out_ignored(h: History) -> None:
    put(h, 9, stamp="berth/1 id=x action=keep code=best")


def partition_chosen_ignored(h: History) -> None:
    h.submissions[12] = replace(h.submissions[12], queue="cpu")


def another_queue_in_the_record(h: History) -> None:
    put_job(h, 6, queue="reserved")


def stamp_taken_off_later(h: History) -> None:
    put_job(h, 8, stamp=None)


def one_answer_for_two(h: History) -> None:
    put_job(h, 8, stamp=h.jobs[7].stamp)
    put(h, 8, stamp=of(h, 7).stamp)


def decision_not_stored(h: History) -> None:
    del h.decisions[-1]


def decision_of_another_user(h: History) -> None:
    h.decisions[-1] = replace(h.decisions[-1], user="daemon")


def other_edits_stored(h: History) -> None:
    row = next(i for i, d in enumerate(h.decisions) if d.action == "edit")
    h.decisions[row] = replace(h.decisions[row], edits={"queue": "gpu"})


def spool_left_behind(h: History) -> None:
    h.ending = replace(h.ending, left=("berth.db.spool.jsonl",))


def slow(h: History) -> None:
    put(h, 50, took_s=6.0)


def breaker_never_opens(h: History) -> None:
    for number in range(12):
        h.calls.append(replace(of(h, 20), at_s=STOP_S + number / 4))


def breaker_never_closes(h: History) -> None:
    for call in list(h.calls):
        if call.at_s >= OFF_S + 4:
            for _ in range(3):
                h.calls.append(call)
    h.calls[:] = [
        replace(c, stamp=None, after=c.before) if c.at_s >= OFF_S + 4 else c for c in h.calls
    ]


def scheduler_not_read_any_more(h: History) -> None:
    keep = "berth/1 id=id{} action=keep code=no-candidate"
    for call in [c for c in h.calls if c.at_s >= OFF_S + 4]:
        h.calls.remove(call)
        h.calls += [replace(call, stamp=keep.format(n), after=call.before) for n in range(10)]


def switch_not_looked_at(h: History) -> None:
    put(h, 41, stamp="berth/1 id=y action=keep code=best")


def daemon_dies(h: History) -> None:
    h.ending = replace(h.ending, problems=("the daemon ended by itself with -11",))


BUGS: dict[Callable[[History], None], str] = {
    rejected_by_the_filter: "none_rejected",
    refused: "none_rejected",
    lost: "none_lost",
    doubled: "none_doubled",
    held: "none_held",
    changed_without_a_stamp: "each_edit_is_explained",
    edits_left_after_a_failure: "each_edit_is_explained",
    was_says_something_else: "each_edit_is_explained",
    was_forgets_a_field: "each_edit_is_explained",
    opt_out_ignored: "choices_are_respected",
    partition_chosen_ignored: "choices_are_respected",
    another_queue_in_the_record: "records_agree",
    stamp_taken_off_later: "records_agree",
    one_answer_for_two: "decisions_once",
    decision_not_stored: "decisions_arrive",
    decision_of_another_user: "decisions_arrive",
    other_edits_stored: "decisions_arrive",
    spool_left_behind: "decisions_arrive",
    slow: "in_time",
    breaker_never_opens: "in_time",
    breaker_never_closes: "breaker_closes",
    scheduler_not_read_any_more: "jobs_are_placed_in_peace",
    switch_not_looked_at: "the_switch_stops_all",
    daemon_dies: "the_daemon_lives",
}


def test_a_sound_history_breaks_no_rule(tmp_path: Path) -> None:
    assert check(sound()) == []
    sound().write(tmp_path / "history.jsonl")
    assert check(read(tmp_path / "history.jsonl")) == []


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_bug_in_a_history_is_found(bug: Callable[[History], None]) -> None:
    history = sound()
    bug(history)
    assert BUGS[bug] in {violation.rule for violation in check(history)}


def test_every_rule_has_a_bug_that_breaks_it() -> None:
    assert {rule.__name__ for rule in RULES} == set(BUGS.values())


def test_what_a_killed_controller_forgot_and_an_error_with_a_job_break_no_rule() -> None:
    """The job of the error is there: submission 11 of ``sound``; the one before may be gone."""
    history = sound()
    assert history.submissions[11].status == 1
    assert history.jobs[11].name == "chaos-11"
    history.jobs[9:10] = []
    assert check(history) == []


def test_a_job_that_ended_between_two_looks_is_in_the_log_of_ended_jobs(tmp_path: Path) -> None:
    history = sound()
    job = history.jobs.pop(40)
    assert {violation.rule for violation in check(history)} == {"none_lost"}
    history.ended.append(Ended(job.id, job.name))
    history.write(tmp_path / "history.jsonl")
    assert check(read(tmp_path / "history.jsonl")) == []


@pytest.mark.parametrize(("new_filters", "most"), [(0, 5), (1, 9)])
def test_a_new_controllers_breaker_begins_anew_within_a_hung_daemon(
    new_filters: int, most: int
) -> None:
    """In 0.9 s: 3 in a row, a probe, one that was on its way. The old controller had 4 of these."""
    history = sound()
    history.faults[1] = replace(history.faults[1], off_s=STOP_S + 0.9, ended_s=STOP_S + 0.9)
    at_s = STOP_S
    for _ in range(new_filters):
        history.faults.append(Fault("controller restarted", at_s, at_s, at_s, at_s, at_s))
    slow = replace(of(history, 20), at_s=STOP_S + 0.1)
    history.calls[20:24] = []
    for count in (most, most + 1):
        history.calls += [slow] * (count - sum(call is slow for call in history.calls))
        rules = {violation.rule for violation in check(history)}
        assert ("in_time" in rules) == (count > most)


def test_nodes_that_are_not_back_after_a_new_controller_break_no_rule() -> None:
    history = sound()
    scheduler_not_read_any_more(history)
    history.faults[2] = replace(history.faults[2], name="controller restarted")
    assert "jobs_are_placed_in_peace" not in {violation.rule for violation in check(history)}


def test_a_line_that_was_cut_off_is_no_call() -> None:
    line = '{"name":"a","at_s":1.5,"took_s":0.1,"code":0,"before":{},"after":{}}\n'
    assert [call.name for call in read_calls([line, line[:30], "\n"])] == ["a"]


def test_a_seed_decides_what_is_asked_and_how_answers_are_garbled() -> None:
    assert [asked(3, n) for n in range(50)] == [asked(3, n) for n in range(50)]
    assert {asked(3, n).queue for n in range(300)} == {"auto", "cpu", None}
    reply = b'{"v":1,"action":"edit","edits":{"queue":"gpu"},"stamp":"berth/1 id=x"}\n'
    for garble in GARBLED:
        assert garble(reply, Random(1)) == garble(reply, Random(1))
