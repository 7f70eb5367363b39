"""A daemon that is killed at any moment leaves no answer unexplained."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pytest
from berth_daemon import Harbour, forecast, wait_until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_forecasts import put
from views import site_of

from berth.pilot.errors import StoreError
from berth.plugin.daemon.app import view
from berth.plugin.daemon.journal import AnswerJournal, without_secrets
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.host import Files, Host
from berth.plugin.store.records import DecisionRecord
from berth.plugin.usernames import UserNames

JOB = {"user": "alice", "queue": "auto", "workload": "stream", "tasks": 1, "script": "#!/bin/sh\n"}
REQUEST = json.dumps({"v": 1, "op": "decide", "scheduler": "flux", "job": JOB}).encode() + b"\n"


def reply(name: str) -> bytes:
    return (
        json.dumps(
            {
                "v": 1,
                "action": "edit",
                "edits": {"queue": "gpu"},
                "decision": name,
                "code": "placed",
                "message": "gpu is fastest",
                "stamp": f"berth/1 id={name} action=edit code=placed to=gpu workload=stream",
            }
        ).encode()
        + b"\n"
    )


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("*journal*"))


def test_answers_of_a_killed_daemon_are_in_the_store_after_the_next_start(site: Harbour) -> None:
    put(site.store(), forecast("stream"))
    daemon = site.start()
    answered = []
    for kill in range(5):
        answers = [
            daemon.decide(scheduler="flux", queue="auto", workload="stream", name=f"{kill}-{i}")
            for i in range(40)
        ]
        daemon.stop(signal.SIGKILL)  # at once: the recorder writes only now and then
        answered += answers
        daemon = site.start()
    assert all(answer["action"] == "edit" for answer in answered)
    store = site.store()
    names = {answer["decision"] for answer in answered}
    assert len(names) == 200
    wait_until(lambda: names <= {record.id for record in store.decisions.last(1000)})
    for record in store.decisions.last(1000):
        assert record.chosen == "gpu"
        assert record.workload == "stream"
        assert record.action == "edit"
        assert json.loads(record.edits)["queue"] == "gpu"
    daemon.stop()
    assert journals(site.folder) == []


def test_a_user_whom_the_question_only_numbers_keeps_the_name(tmp_path: Path) -> None:
    """As Flux's questions do; without the name, it was `uid:1000` that had decided jobs."""
    message = json.loads(REQUEST)
    message["job"] = {**message["job"], "uid": 1000}
    del message["job"]["user"]
    request = json.dumps(message).encode()
    journal = AnswerJournal(tmp_path / "journal")
    journal.write(1.0, "enforce", request, reply("a1"), 'zo"e')
    journal.write(2.0, "enforce", request, reply("a2"))
    journal.write(3.0, "enforce", REQUEST, reply("a3"))
    path = journal.rotate()
    assert path is not None
    found: list[DecisionRecord] = []
    AnswerJournal(tmp_path / "bringing").bring_in(path, found.extend)
    assert [one.user for one in found] == ['zo"e', "uid:1000", "alice"]
    journal.close(remove=True)


def test_the_service_gives_the_name_where_the_question_has_none() -> None:
    kept: list[str | None] = []
    service = Service(
        view(site_of()), lambda _: None, keep=lambda *entry: kept.append(entry[-1]),
        names=UserNames(lambda uid: f"user{uid}"),
    )  # fmt: skip
    service.shelf = Shelf.of((forecast("stream"),))
    named = json.loads(REQUEST)
    numbered = {**named, "job": {**named["job"], "uid": 7}}
    del numbered["job"]["user"]
    wait_until(lambda: service._names.of(7) == "user7")
    for message in (named, numbered, named, numbered):
        service.handle(json.dumps(message).encode())
    assert kept == [None, "user7", None, "user7"]


def test_an_entry_becomes_a_decision(tmp_path: Path) -> None:
    journal = AnswerJournal(tmp_path / "journal")
    journal.write(5.5, "enforce", REQUEST, reply("a1"))
    journal.write(6.5, "enforce", REQUEST, reply("a2"))
    path = journal.rotate()
    assert path is not None
    assert journal.rotate() is None, "nothing new was written"
    found: list[DecisionRecord] = []
    assert AnswerJournal(tmp_path / "bringing").bring_in(path, found.extend) == 2
    assert not path.exists()
    first = found[0]
    assert (first.id, first.time_s, first.mode, first.action) == ("a1", 5.5, "enforce", "edit")
    assert (first.user, first.queue, first.workload, first.chosen) == (
        "alice",
        "auto",
        "stream",
        "gpu",
    )
    assert first.reason == "gpu is fastest"
    assert first.edits == '{"queue":"gpu"}'
    journal.close(remove=True)
    assert journals(tmp_path) == []


def test_what_was_cut_off_or_is_no_entry_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.1-1"
    journal = AnswerJournal(tmp_path / "other")
    journal.write(1.0, "enforce", REQUEST, reply("a1"))
    whole = next(tmp_path.glob("other.*")).read_bytes()
    for cut in range(0, len(whole) - 1, 7):
        path.write_bytes(b"junk\n{}\n[1]\n\xff\n" + whole + whole[:cut])
        found: list[DecisionRecord] = []
        assert AnswerJournal(tmp_path / "bringing").bring_in(path, found.extend) == 1
        assert found[0].id == "a1"
    journal.close(remove=True)


def test_a_store_that_does_not_take_them_leaves_the_file(tmp_path: Path) -> None:
    journal = AnswerJournal(tmp_path / "journal")
    journal.write(1.0, "enforce", REQUEST, reply("a1"))
    path = journal.rotate()
    assert path is not None

    def refuse(_: object) -> None:
        raise StoreError("locked")

    with pytest.raises(StoreError):
        AnswerJournal(tmp_path / "bringing").bring_in(path, refuse)
    assert path.exists()
    journal.close(remove=False)


def test_only_files_of_daemons_that_are_no_more_are_taken(tmp_path: Path) -> None:
    living = AnswerJournal(tmp_path / "journal")
    living.write(1.0, "enforce", REQUEST, reply("a1"))
    dead = tmp_path / "journal.999-1"
    dead.write_bytes(b"")
    assert AnswerJournal(tmp_path / "journal").left_behind() == [dead]
    living.close(remove=True)


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    journal = AnswerJournal(tmp_path / "nowhere" / "journal")
    journal.write(1.0, "enforce", REQUEST, reply("a1"))
    assert journal.failed == 1
    assert journal.rotate() is None
    journal.close(remove=True)


def test_a_long_script_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": {**JOB, "script": "x" * 60_000}}
    journal = AnswerJournal(tmp_path / "journal")
    journal.write(1.0, "enforce", json.dumps(message).encode(), reply("a1"))
    path = journal.rotate()
    assert path is not None
    assert path.stat().st_size < 2_000
    found: list[DecisionRecord] = []
    AnswerJournal(tmp_path / "bringing").bring_in(path, found.extend)
    assert found[0].user == "alice"
    journal.close(remove=True)


HIDDEN = "the words of a script"
TRICKY = (HIDDEN, f'"{HIDDEN}\\\\"', f'\\"script\\":\\"{HIDDEN}', "\n" + HIDDEN, "caf\xe9" + HIDDEN)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("secret", TRICKY)
def test_no_script_and_no_argument_is_written_down(
    tmp_path: Path, secret: str, ascii_only: bool, compact: bool
) -> None:
    """S5: users' scripts hold their secrets."""
    job = {**JOB, "script": f"#!/bin/sh\n{secret}\n", "arguments": ["--key", secret, "]"]}
    for odd in ({"comment": '"script":"no"'}, {"name": '"arguments":["no"]'}, {}):
        message = {"v": 1, "op": "decide", "scheduler": "flux", "job": {**job, **odd}}
        journal = AnswerJournal(tmp_path / "journal")
        blanks = (",", ":") if compact else None
        line = json.dumps(message, ensure_ascii=ascii_only, separators=blanks).encode()
        journal.write(1.0, "enforce", line, reply("a1"))
        path = journal.rotate()
        assert path is not None
        assert path.stat().st_mode & 0o777 == 0o600
        text = path.read_text()
        assert HIDDEN not in text
        kept = json.loads(text)["q"]["job"]
        assert not kept.pop("script", "")
        assert not kept.pop("arguments", [])
        assert kept == {k: v for k, v in {**job, **odd}.items() if k not in ("script", "arguments")}
        found: list[DecisionRecord] = []
        assert AnswerJournal(tmp_path / "bringing").bring_in(path, found.extend) == 1
        journal.close(remove=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)
    ),
    st.text(),
    st.lists(st.text()),
    st.permutations(["x", "script", "arguments", "z"]),
    st.booleans(),
)
def test_any_other_field_stays_as_it_is(
    value: object, script: str, arguments: list[str], order: list[str], compact: bool
) -> None:
    fields = {"x": value, "script": script + HIDDEN, "arguments": [*arguments, HIDDEN], "z": value}
    job = {key: fields[key] for key in order}
    line = json.dumps({"job": job}, separators=(",", ":") if compact else None).encode()
    cut = without_secrets(line)
    kept = json.loads(cut)["job"]
    assert HIDDEN.encode() not in cut
    assert not kept.pop("script", "")
    assert not kept.pop("arguments", [])
    assert kept == {"x": value, "z": value}


def test_a_script_full_of_quotes_costs_no_more_than_a_parser(tmp_path: Path) -> None:
    job = {**JOB, "script": '"' * 60_000 + HIDDEN}
    line = json.dumps({"job": job}, separators=(",", ":")).encode()
    assert HIDDEN.encode() not in without_secrets(line)


def names_in(folder: Path, path: Path) -> list[str]:
    found: list[DecisionRecord] = []
    AnswerJournal(folder / "reader").bring_in(path, found.extend)
    return [record.id for record in found]


class Limited(Files):
    """Files on a disk with ``room`` bytes left; ``opens``: how many files may be opened."""

    def __init__(self) -> None:
        self.room = self.opens = 10**9

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self.opens -= 1
        if self.opens < 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(path, flags, mode)

    def write(self, descriptor: int, data: bytes) -> int:
        taken = data[: self.room]
        self.room -= len(taken)
        return super().write(descriptor, taken) if taken else 0


def test_a_daemon_with_the_pid_of_the_one_before_does_not_go_on_with_its_file(
    tmp_path: Path,
) -> None:
    """As in containers, where every daemon has the same pid."""
    killed = AnswerJournal(tmp_path / "journal")
    killed.write(1.0, "enforce", REQUEST, reply("a1"))
    os.close(killed._handle)  # its lock goes with it
    fresh = AnswerJournal(tmp_path / "journal")
    (left,) = fresh.left_behind()
    fresh.write(2.0, "enforce", REQUEST, reply("b1"))
    assert fresh.rotate() != left
    assert names_in(tmp_path, left) == ["a1"]


def test_an_entry_that_was_cut_off_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    files = Limited()
    journal = AnswerJournal(tmp_path / "journal", host=Host(files=files))
    journal.write(1.0, "enforce", REQUEST, reply("a1"))
    files.room = 40
    journal.write(2.0, "enforce", REQUEST, reply("a2"))
    files.room = 10**9
    journal.write(3.0, "enforce", REQUEST, reply("a3"))
    assert journal.failed == 1
    path = journal.rotate()
    assert path is not None
    assert names_in(tmp_path, path) == ["a1", "a3"]


def test_a_journal_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    files = Limited()
    files.opens = 0
    journal = AnswerJournal(tmp_path / "journal", host=Host(files=files))
    journal.write(1.0, "enforce", REQUEST, reply("a1"))
    files.opens = 10
    assert journal.rotate() is None
    journal.write(2.0, "enforce", REQUEST, reply("a2"))
    path = journal.rotate()
    assert path is not None
    assert names_in(tmp_path, path) == ["a2"]
    assert journal.failed == 1


def test_an_answer_while_the_next_file_is_opened_goes_into_the_one_so_far(tmp_path: Path) -> None:
    class Answering(Files):
        """The answering thread goes on while the recorder's waits for the system."""

        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            if flags & os.O_CREAT and begun:
                begun[0].write(2.0, "enforce", REQUEST, reply("a2"))
            return super().open(path, flags, mode)

    begun: list[AnswerJournal] = []
    journal = AnswerJournal(tmp_path / "journal", host=Host(files=Answering()))
    journal.write(1.0, "enforce", REQUEST, reply("a1"))
    begun.append(journal)
    path = journal.rotate()
    assert journal.failed == 0
    assert path is not None
    assert [json.loads(line)["a"]["decision"] for line in path.read_text().splitlines()] == [
        "a1",
        "a2",
    ]
    journal.close(remove=True)
