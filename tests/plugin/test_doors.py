"""What comes from others is refused, or shown so that it does no harm; reading makes nothing."""

from __future__ import annotations

import gzip
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import text
from stored import PLACED

from berth.pilot.errors import BerthError, DocumentError, StoreError, UsageError
from berth.pilot.printable import printable
from berth.plugin.cli.command_line import berth
from berth.plugin.history.files import LEAST_LIMIT_BYTES, lines_of
from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import PlacedRun, Store, WorkloadRecord
from berth.plugin.ui.app import create_app
from berth.plugin.ui.guard import UiSettings
from berth.plugin.workloads.names import check_name, own_name

HOSTILE = "\x1b[31mRED\x1b]0;title\x07\rOVER\nLINE\u202erev"


def test_what_a_terminal_acts_on_is_escaped() -> None:
    assert printable("plain, ünïcode") == "plain, ünïcode"
    assert printable(HOSTILE).isprintable()
    assert printable("a\n\x1b", but="\n") == "a\n\\x1b"


@pytest.mark.parametrize("name", [HOSTILE, "a\nb", "nul\x00", " padded", "", "alice/", "x" * 129])
def test_names_that_are_no_line_of_text_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)
    with pytest.raises(UsageError):
        own_name("alice", name)


def filled(folder: Path) -> Path:
    """A store of 300 jobs in one file, without a log beside it."""
    file = folder / "store.db"
    store = Store.open(file)
    store.add(WorkloadRecord("w", "program", "sha256:1", "{}", "u", 1.0))
    names = [f"d{number:015}" for number in range(300)]
    store.decisions.add(
        [replace(PLACED, id=name, time_s=1e9 + n) for n, name in enumerate(names)]
    )  # fmt: skip
    store.outcomes.put(
        [PlacedRun("lab", str(n), "u", "completed", decision=name, end_s=1e9 + n)
         for n, name in enumerate(names)]
    )  # fmt: skip
    store.close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file


def test_hostile_names_in_a_store_forge_no_line(tmp_path: Path) -> None:
    file = filled(tmp_path)
    store = Store.open(file)
    hostile = replace(PLACED, id="e" * 16, user="eve", workload=HOSTILE, reason=HOSTILE)
    store.decisions.add([replace(hostile, queue=HOSTILE, account=HOSTILE, time_s=2e9)])
    store.close()
    for words in (["--last", "3"], ["e" * 16]):
        done = CliRunner().invoke(berth, ["jobs", "decisions", *words, "--store", str(file)])
        assert done.exit_code == 0, done.output
        assert "\\x1b[31mRED" in done.output
        assert done.output.replace("\n", "").isprintable()


def test_the_page_makes_no_store(tmp_path: Path) -> None:
    absent = tmp_path / "nowhere" / "store.db"
    site = tmp_path / "berth.toml"
    site.write_text(f'{DEMO_FILE.read_text()}\n[daemon]\nstore = "{absent}"\n')
    page = create_app(UiSettings(site_file=site)).test_client().get("/jobs")
    assert "does not exist" in page.text
    assert not absent.parent.exists()


def test_each_page_has_a_cookie_of_its_own() -> None:
    names = {create_app(UiSettings(port=p)).config["SESSION_COOKIE_NAME"] for p in (8000, 8001)}
    assert len(names) == 2


def flipped(data: bytearray, at: int) -> bytes:
    data[at] ^= 1 << at % 8
    return bytes(data)


def garbled(data: bytearray, at: int) -> bytes:
    data[at : at + 64] = random.Random(at).randbytes(64)  # noqa: S311
    return bytes(data)


def zeroed(data: bytearray, at: int) -> bytes:
    page = at // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    return bytes(data)


def cut(data: bytearray, at: int) -> bytes:
    return bytes(data[:at])


def read(file: Path) -> object:
    """What a store says: workloads, decisions, runs."""
    store = Store.reading(file)
    try:
        ran = list(store.outcomes.between(0.0, 2e9))
        return store.workloads(), store.decisions.last(500), ran
    finally:
        store.close()


@pytest.mark.parametrize("damage", [flipped, garbled, zeroed, cut])
def test_a_damaged_store_is_refused_or_reads_as_it_was(
    damage: Callable[[bytearray, int], bytes], tmp_path: Path
) -> None:
    """50 damages of each kind: no traceback, and none that goes unnoticed."""
    whole, file = filled(tmp_path), tmp_path / "damaged.db"
    data, right = whole.read_bytes(), read(whole)
    draw = random.Random(1)  # noqa: S311
    for _ in range(50):
        file.write_bytes(damage(bytearray(data), draw.randrange(len(data))))
        with suppress(BerthError):
            assert read(file) == right


def test_a_store_of_before_the_first_version_is_called_older(store: Store) -> None:
    url = store.database.url.render_as_string(hide_password=False)
    with store.database.write() as connection:
        connection.execute(text("CREATE TABLE past_jobs (job_id TEXT)"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'v0012'"))
    with pytest.raises(StoreError, match="older than this Berth reads"):
        Store.open(url)
    with store.database.write() as connection:
        connection.execute(text("DROP TABLE past_jobs"))
    with pytest.raises(StoreError, match="made by a newer Berth"):
        Store.open(url)


def test_a_gzipped_file_that_unpacks_to_far_more_than_text_does_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(bytes(LEAST_LIMIT_BYTES + 1)))
    with pytest.raises(DocumentError, match="unpacks to more than 16"):
        lines_of(file)
    file.write_bytes(gzip.compress(b"a\nb"))
    assert lines_of(file) == ["a", "b"]
