"""A store that is locked, gone, damaged, read-only, foreign or too new: one clear sentence."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from berth.pilot.errors import StoreError, UsageError
from berth.plugin.store import Store, WorkloadRecord

PROFILE = WorkloadRecord("stream", "program", "sha256:1", "{}", "alice", 1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one workload."""
    made = tmp_path / "store.db"
    store = Store.open(made)
    store.add(PROFILE)
    store.close()
    return made


def test_the_file_is_not_for_others(path: Path) -> None:
    assert path.stat().st_mode & 0o007 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a file away")
def test_what_root_makes_in_the_daemons_folder_is_the_daemons(tmp_path: Path) -> None:
    """Doctor, as root, advises `berth site store upgrade`: the daemon must open the result."""
    folder = tmp_path / "berth"
    folder.mkdir(mode=0o700)
    os.chown(folder, 4242, 4343)
    made = folder / "store.db"
    Store.open(made).close()
    assert {(p.stat().st_uid, p.stat().st_gid) for p in folder.iterdir()} == {(4242, 4343)}
    assert made.stat().st_mode & 0o007 == 0
    victim = tmp_path / "shadow"
    (folder / "link.db").symlink_to(victim)
    with pytest.raises(StoreError):
        Store.open(folder / "link.db")
    assert not victim.exists()


def test_a_locked_store_says_so_and_loses_nothing(path: Path) -> None:
    store = Store.open(path, busy_timeout_s=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked for too long"):
        store.add(PROFILE)
    assert store.workload("stream") == PROFILE  # reading goes on: it is WAL
    other.execute("ROLLBACK")
    store.remove_workload("stream")
    assert store.workloads() == []


def test_a_store_deleted_while_open_is_noticed_and_not_made_again(path: Path) -> None:
    store = Store.open(path)
    path.unlink()
    with pytest.raises(StoreError, match="not there"):
        store.add(PROFILE)
    with pytest.raises(StoreError, match="not there"):
        store.revision()
    assert not path.exists()


def test_the_log_of_a_deleted_store_does_not_get_into_the_next_one(path: Path) -> None:
    holder = sqlite3.connect(path)
    holder.execute("SELECT count(*) FROM workloads").fetchone()
    Store.open(path).add(WorkloadRecord("late", "program", "sha256:2", "{}", "bob", 1.0))
    wal = path.with_name(path.name + "-wal")
    assert wal.stat().st_size > 0
    path.unlink()
    assert Store.open(path).workloads() == []
    assert wal.with_name(wal.name + ".orphaned").stat().st_size > 0


def test_a_damaged_store_is_refused_at_opening(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.seek(100)
        stream.write(os.urandom(path.stat().st_size - 100))
    with pytest.raises(StoreError, match=r"damaged|not a store|lacks a table") as refused:
        Store.open(path)
    assert refused.value.hint


def test_a_truncated_store_is_refused_at_opening(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(path)


@pytest.mark.parametrize(("table", "is_found"), [("workloads", True), ("decisions", False)])
def test_a_large_store_is_searched_for_damage_but_not_what_grows_with_every_job(
    path: Path, monkeypatch: pytest.MonkeyPatch, table: str, *, is_found: bool
) -> None:
    """``decisions`` and the like take seconds a gigabyte."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        ((page,),) = connection.execute(query, (table,))
        ((page_bytes,),) = connection.execute("PRAGMA page_size")
    connection.close()
    with path.open("r+b") as stream:
        stream.seek((page - 1) * page_bytes)
        stream.write(b"\xff" * page_bytes)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(path)
    monkeypatch.setattr("berth.plugin.store.database.CHECKED_BYTES", 0)
    store = Store.reading(path, check=False)
    try:
        problem = store.database.integrity_problem()
    except StoreError as error:  # a page that SQLite cannot read at all
        problem = str(error)
    store.close()
    assert (problem is not None) == is_found


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is my shopping list\n" * 200)
    with pytest.raises(StoreError, match="not a store"):
        Store.open(path)
    assert path.read_text().startswith("this is my shopping list")


def test_a_database_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.commit()
    with pytest.raises(StoreError, match="not Berth's"):
        Store.open(path)
    assert [row[0] for row in other.execute("SELECT name FROM sqlite_master")] == ["recipes"]


def test_a_store_of_a_newer_berth_is_refused_and_not_touched(path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.execute("UPDATE alembic_version SET version_num = 'v0999'")
    raw.commit()
    for opened in (Store.open, Store.reading):
        with pytest.raises(StoreError, match="v0999, made by a newer Berth") as refused:
            opened(path)
        assert refused.value.hint == "upgrade Berth on this host"


def test_a_store_that_is_only_read_refuses_to_write(store: Store) -> None:
    reading = Store.reading(store.database.url.render_as_string(hide_password=False))
    with pytest.raises(StoreError, match="read-only"):
        reading.add(PROFILE)
    assert store.workloads() == reading.workloads() == []
    reading.close()


def test_without_create_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not there"):
        Store.reading(tmp_path / "absent.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="is empty") as refused:
        Store.reading(tmp_path / "empty.db")
    assert refused.value.hint == "run: berth site store upgrade"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(tmp_path / "file" / "store.db")
    with pytest.raises(StoreError):
        Store.open(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_store_that_is_read_only_for_us_says_so(path: Path) -> None:
    path.chmod(0o644)
    for parent in (path.parent, *path.parents):
        if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    script = (
        "from berth.plugin.store import Store, WorkloadRecord\n"
        "from berth.pilot.errors import StoreError\n"
        "import os, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    Store.open(sys.argv[1]).add(WorkloadRecord('a', 'program', 'b', '{}', 'c', 1.0))\n"
        "except StoreError as error:\n"
        "    print(error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "read-only" in done.stdout or "may not be opened" in done.stdout


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "sqlite://", "sqlite:///:memory:", "nonsense://x"]
)
def test_an_address_of_another_kind_is_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Store.open(url)
    assert refused.value.exit_status == 2


def test_a_store_that_is_there_and_may_not_be_opened_is_not_called_missing(tmp_path: Path) -> None:
    """It was: "make it with: berth site store upgrade", which was what had made it."""
    with pytest.raises(StoreError, match="is there, and may not be opened") as refused:
        Store.reading(tmp_path)
    assert "upgrade" not in (refused.value.hint or "")


def test_a_full_disk_is_called_full_where_sqlite_says_disk_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Store.open(path).database
    error = sqlite3.OperationalError("disk I/O error")
    assert "the disk with the store fails" in database.explain(error).message
    full = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=0))
    monkeypatch.setattr("berth.plugin.store.database.shutil", full)
    assert "the disk with the store is full" in database.explain(error).message


@pytest.mark.parametrize("user", ["berth:s3cret@/berth?", "/berth?user=berth&password=s3cret&"])
def test_an_unreachable_server_is_a_sentence_without_the_password(user: str) -> None:
    with pytest.raises(StoreError) as refused:
        Store.open(f"postgresql://{user}host=/nowhere/at/all", busy_timeout_s=1)
    assert "s3cret" not in refused.value.message
    assert "reached" in refused.value.message
    assert refused.value.hint


def test_a_server_whose_name_is_unknown_is_a_sentence_with_a_remedy(path: Path) -> None:
    error = sqlite3.OperationalError("failed to resolve host 'db': [Errno -2] Name not known")
    explained = Store.open(path).database.explain(error)
    assert "has no address" in explained.message
    assert "store URL" in (explained.hint or "")


def test_a_backup_put_back_is_read_at_once(path: Path, tmp_path: Path) -> None:
    store = Store.open(path)
    shutil.copy(path, tmp_path / "backup")
    store.remove_workload("stream")
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    shutil.copy(tmp_path / "backup", path)
    assert store.workload("stream") == PROFILE
