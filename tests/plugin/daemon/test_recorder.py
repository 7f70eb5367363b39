"""Writing down what was decided: never waited for, and nothing lost while the store is away."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from berth_daemon import wait_until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thorough import examples
from views import knowing_service

from berth.pilot.errors import StoreError
from berth.plugin.daemon import recorder as recorder_module
from berth.plugin.daemon.journal import AnswerJournal
from berth.plugin.daemon.record import Answered, as_json, asked_of, record_of
from berth.plugin.daemon.recorder import QUEUE_LENGTH, Recorder
from berth.plugin.daemon.spool import Spool
from berth.plugin.store import Store
from berth.policies.values import TaskArray


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "PERIOD_S", 0.01)


def answered(count: int = 1, **job: object) -> list[Answered]:
    service, recorded = knowing_service()
    described = {"user": "alice", "queue": "auto", "comment": "berth:stream", **job}
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": described}
    for _ in range(count):
        service.handle(json.dumps(message).encode())
    return recorded


def started(store: Store, folder: Path, **options: object) -> Recorder:
    recorder = Recorder(store, Spool(folder / "spool"), retry_s=0.05, **options)  # type: ignore[arg-type]
    recorder.start()
    return recorder


def test_what_is_recorded_is_in_the_store_whole(store: Store, tmp_path: Path) -> None:
    recorder = started(store, tmp_path)
    made = answered(3)
    for one in made:
        recorder.record(one)
    recorder.stop(10)
    assert store.decisions.count() == 3
    found = store.decisions.get(made[0].id)
    assert found is not None
    assert (found.user, found.code, found.chosen, found.action) == (
        "alice",
        "placed",
        "gpu",
        "edit",
    )
    assert json.loads(found.edits)["queue"] == "gpu"
    ranked = json.loads(found.ranked)
    assert [row["candidate"] for row in ranked] == ["gpu", "cpu"]
    assert ranked[0]["runtime_s"] == pytest.approx([50, 60, 72])
    assert json.loads(found.request)["tasks"] == 1
    assert found.inputs_digest


def test_candidates_ruled_out_are_recorded_with_their_reason(store: Store, tmp_path: Path) -> None:
    recorder = started(store, tmp_path)
    made = answered(1, queues=["cpu"])
    recorder.record(made[0])
    recorder.stop(10)
    found = store.decisions.get(made[0].id)
    assert found is not None
    ruled_out = json.loads(found.ranked)[1]
    assert ruled_out["candidate"] == "gpu"
    assert ruled_out["code"] == "queue-not-allowed"
    assert "gpu" in ruled_out["excluded"]
    assert ruled_out["predicted_s"] == pytest.approx([50, 60, 72])
    assert "runtime_s" not in ruled_out  # nothing was acted on there: no outcome is held against it


@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(user=st.text(min_size=1), account=st.text(), reason=st.text())
def test_any_text_of_a_job_can_be_stored(
    store: Store, user: str, account: str, reason: str
) -> None:
    (made,) = answered(1, user=user[:4000], account=account[:4000], name=reason[:4000])
    made = replace(made, reason=reason)
    record = record_of(made, "host")
    store.decisions.add([record])
    assert store.decisions.get(record.id) == record


def test_what_was_spooled_before_a_restart_comes_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append([record_of(one, "host") for one in answered(7)])
    store = Store.open(tmp_path / "store.db")
    recorder = started(store, tmp_path)
    wait_until(lambda: store.decisions.count() == 7)
    recorder.stop(10)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """No byte can be written there any more."""
    ballast = folder / "ballast"
    for size in (2**20, 512):
        with ballast.open("ab", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(b"x" * size)
    yield
    ballast.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """By another process for long; and what should be the spool is none."""
    (folder / "spool").mkdir()
    with sqlite3.connect(folder / "store.db", isolation_level=None) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    (folder / "spool").rmdir()


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, check=False).returncode != 0:
        pytest.skip("NOT TESTED: only root can mount a disk that gets full")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """4 MiB."""
    with disk(tmp_path / "disk", "4m") as folder:
        yield folder


@pytest.mark.parametrize("trouble", [full, read_only, locked])
def test_no_decision_is_lost_up_to_the_bound_and_overflow_is_counted(
    small_disk: Path, tmp_path: Path, trouble: Callable[[Path], AbstractContextManager[None]]
) -> None:
    store = Store.open(small_disk / "store.db", busy_timeout_s=0.05)
    journal = AnswerJournal(tmp_path / "journal")
    recorder = started(store, small_disk, queue_length=300, journal=journal)
    made = answered(320)
    with trouble(small_disk):
        recorder.record(made[0])
        wait_until(lambda: recorder.problem is not None)
        for one in made[1:]:
            recorder.record(one)
        assert recorder.dropped == 20
        assert recorder.summary()["queued"] == 300
    wait_until(lambda: store.decisions.count() == 300)
    recorder.stop(10)
    journal.close(remove=True)
    assert {r.id for r in store.decisions.last(1000)} == {one.id for one in made[:300]}
    assert recorder.summary()["queued"] == 0


def test_at_the_real_bound_a_full_disk_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as the daemon holds, and 500 more."""
    one = answered()[0]
    made = [replace(one, id=f"{number:016d}") for number in range(QUEUE_LENGTH + 500)]
    with disk(tmp_path / "large", "256m") as folder:
        store = Store.open(folder / "store.db", busy_timeout_s=0.05)
        recorder = started(store, folder)
        with full(folder):
            recorder.record(made[0])
            wait_until(lambda: recorder.problem is not None)
            for answer in made[1:]:
                recorder.record(answer)
            held, dropped = recorder.summary()["queued"], recorder.dropped
        wait_until(lambda: store.decisions.count() == QUEUE_LENGTH, timeout_s=60)
        recorder.stop(30)
        found = {r.id for r in store.decisions.last(QUEUE_LENGTH + 500)}
    with capsys.disabled():
        print(f"\ndisk full: {held} decisions waited, {len(found)} stored, {dropped} counted")
    assert (held, dropped) == (QUEUE_LENGTH, 500)
    assert found == {answer.id for answer in made[:QUEUE_LENGTH]}


def test_a_full_disk_leaves_the_spool_as_it_was(tmp_path: Path) -> None:
    spool = Spool(Path("/dev/full"))
    records = [record_of(one, "host") for one in answered(1)]
    with pytest.raises(OSError, match="No space"):
        spool.append(records)
    small = Spool(tmp_path / "spool", max_bytes=2_000)
    small.append(records)
    before = (tmp_path / "spool").read_bytes()
    with pytest.raises(OSError, match="has reached"):
        small.append(records * 5)
    assert (tmp_path / "spool").read_bytes() == before


def test_a_full_queue_drops_at_once_instead_of_waiting(tmp_path: Path) -> None:
    recorder = Recorder(
        Store.open(tmp_path / "store.db"), Spool(tmp_path / "spool"), queue_length=3
    )
    for one in answered(5):
        recorder.record(one)
    assert recorder.dropped == 2
    assert recorder.summary()["queued"] == 3


def test_the_spool_is_not_for_others(tmp_path: Path) -> None:
    Spool(tmp_path / "spool").append([record_of(one, "host") for one in answered(1)])
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        Spool(tmp_path / "link").append([record_of(one, "host") for one in answered(1)])


def test_a_line_that_a_crash_cut_off_is_set_aside_without_the_next_one(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    records = [record_of(one, "host") for one in answered(2)]
    spool.append(records[:1])
    with (tmp_path / "spool").open("ab") as stream:
        stream.write(b'{"id": "half')
    spool.append(records[1:])
    store = Store.open(tmp_path / "store.db")
    assert spool.drain(store.decisions.add) == 2
    assert {r.id for r in store.decisions.last(9)} == {r.id for r in records}
    assert (tmp_path / "spool.bad").read_bytes() == b'{"id": "half\n'


def test_what_is_set_aside_is_set_aside_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    (tmp_path / "spool").write_bytes(b"junk\n")
    spool.append([record_of(one, "host") for one in answered(1)])

    def refuse(_: object) -> None:
        raise StoreError("locked")

    for _ in range(3):
        with pytest.raises(StoreError):
            spool.drain(refuse)
    spool.drain(Store.open(tmp_path / "store.db").decisions.add)
    assert (tmp_path / "spool.bad").read_bytes() == b"junk\n"


def test_two_daemons_do_not_work_on_one_spool_at_once(tmp_path: Path) -> None:
    first, second = Spool(tmp_path / "spool"), Spool(tmp_path / "spool")
    records = [record_of(one, "host") for one in answered(2)]
    first.append(records[:1])

    def other_appends(_: object) -> None:
        with pytest.raises(BlockingIOError):
            second.append(records[1:])

    assert first.drain(other_appends) == 1
    second.append(records[1:])
    assert (tmp_path / "spool").exists()


def test_what_was_dropped_stays_in_the_journal_for_the_next_daemon(tmp_path: Path) -> None:
    journal = AnswerJournal(tmp_path / "journal")
    store = Store.open(tmp_path / "store.db")
    recorder = Recorder(store, Spool(tmp_path / "spool"), queue_length=2, journal=journal)
    for one in answered(3):
        recorder.record(one)
        journal.write(one.time_s, "enforce", b"{}", b"{}")
    recorder._work()
    recorder._work()
    assert store.decisions.count() == 2
    journal.close(remove=recorder.has_all)
    assert sum(p.read_bytes().count(b"\n") for p in tmp_path.glob("journal.*")) == 3


def test_decisions_that_come_fast_are_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of some periods make one batch; who comes alone is stored in the next one."""
    monkeypatch.setattr(recorder_module, "GATHERED_S", 1e9)
    store = Store.open(tmp_path / "store.db")
    batches: list[int] = []
    add = store.decisions.add
    monkeypatch.setattr(store.decisions, "add", lambda rs: (batches.append(len(rs)), add(rs))[1])
    recorder = Recorder(store, Spool(tmp_path / "spool"))
    made = answered(4 * recorder_module.FEW)

    def looks(count: int) -> bool:
        for _ in range(count):
            recorder.record(made.pop())
        gathers = recorder._gathers()
        if not gathers:
            recorder._work()
        return gathers

    assert looks(recorder_module.FEW)
    assert looks(recorder_module.FEW)
    assert not looks(1)
    assert batches == [2 * recorder_module.FEW + 1]
    monkeypatch.setattr(recorder_module, "BATCH", recorder_module.FEW)
    assert not looks(recorder_module.FEW)
    store.close()


def test_a_request_is_written_as_an_encoder_would() -> None:
    (one,) = answered(
        1, nodes=2, memory_mib_per_node=77, features="a|b", gres="gpu:a100:2", qos="h\u00e4ufig",
        time_limit_s=90, pinned=["qos"], queues=["gpu", "cpu"], array="1-3",
    )  # fmt: skip
    read = json.loads(as_json(asked_of(one.request)))
    r = one.request.resources
    assert read == {
        "nodes": 2, "tasks": r.tasks, "cpus_per_task": 1, "gpus": r.gpus,
        "memory_bytes_per_node": 77 * 2**20, "wants_placement": True, "pinned": ["qos"],
        "features": "a|b", "gres": "gpu:a100:2", "qos": "h\u00e4ufig", "time_limit_s": 90.0,
        "size": None, "array_tasks": 3, "allowed_queues": ["cpu", "gpu"], "array_at_once": None,
    }  # fmt: skip
    array = TaskArray(3, 2, ((1.0, 2), (2.5, 1)))
    read = json.loads(as_json(asked_of(replace(one.request, array=array))))
    assert (read["array_at_once"], read["task_sizes"]) == (2, [[1.0, 2], [2.5, 1]])
    assert "array_at_once" not in json.loads(as_json(asked_of(replace(one.request, array=None))))
