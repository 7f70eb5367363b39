"""What goes wrong: each fault begins when its block is entered and is over when it is left."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from chaos.serving import Serving
from chaos.wire import Wire

GARBAGE = b'\n\xff\x00 not a line {\n{"t": 12, "m": "enf'


class Field(Protocol):
    """The place of the run, as far as faults touch it."""

    serving: Serving
    wire: Wire
    store: Path
    """SQLite's file, alone with its spool and journals on a small disk (``has_disk``)."""
    site_file: Path
    bundle: Path
    """A folder of a bundle that the site file names."""
    kill_switch: Path
    has_disk: bool
    controllers: tuple[tuple[str, Callable[[Random], AbstractContextManager[object]]], ...]
    """Faults of the scheduler's own daemons, by their names in ``checker.py``."""


Block = Callable[[Field, Random], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault. ``inner``: it may happen inside one that is not."""

    name: str
    block: Block
    shortest_s: float
    longest_s: float
    inner: bool = False
    possible: Callable[[Field], bool] = lambda _: True


@contextmanager
def _killed(field: Field, _: Random) -> Iterator[None]:
    field.serving.end(signal.SIGKILL)
    yield
    field.serving.start(ready=False)


@contextmanager
def _stopped(field: Field, _: Random) -> Iterator[None]:
    field.serving.signal(signal.SIGSTOP)
    yield
    field.serving.signal(signal.SIGCONT)


@contextmanager
def _restarted(field: Field, _: Random) -> Iterator[None]:
    field.serving.end(signal.SIGTERM)
    field.serving.start(ready=False)
    yield


@contextmanager
def _upgraded(field: Field, _: Random) -> Iterator[None]:
    """To another version, or back."""
    field.serving.end(signal.SIGTERM)
    field.serving.binaries.append(field.serving.binaries.pop(0))
    field.serving.start(ready=False)
    yield


@contextmanager
def _corrupted(field: Field, random: Random) -> Iterator[None]:
    """The filters' kept connections end with the daemon, so that they come by the proxy."""
    with field.wire.garbled(random):
        field.serving.end(signal.SIGTERM)
        field.serving.start(ready=False)
        yield


@contextmanager
def _locked(field: Field, _: Random) -> Iterator[None]:
    with sqlite3.connect(field.store, isolation_level=None, timeout=30) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def _vanished(field: Field, _: Random) -> Iterator[None]:
    """The files are moved away and come back, as on a disk of other hosts.

    The database goes first and comes last: who opens it without its log begins a new log, which the
    old one would replace.
    """
    files = [field.store.with_name(field.store.name + tail) for tail in ("", "-wal", "-shm")]
    for path in files:
        with suppress(FileNotFoundError):  # there is no log while nobody has the database open
            path.rename(path.with_name("away." + path.name))
    yield
    for path in reversed(files):
        with suppress(FileNotFoundError):
            path.with_name("away." + path.name).replace(path)


@contextmanager
def _full(field: Field, _: Random) -> Iterator[None]:
    filler = field.store.with_name("filler")
    with suppress(OSError), filler.open("wb", buffering=0) as stream:
        while stream.write(b"\0" * 2**16):
            pass
    yield
    filler.unlink()


@contextmanager
def _journal_broken(field: Field, _: Random) -> Iterator[None]:
    """A daemon is killed, and what it left behind ends in garbage."""
    field.serving.end(signal.SIGKILL)
    name = field.store.name
    for pattern in (f"{name}.journal.*", f"{name}.spool.jsonl"):
        for path in field.store.parent.glob(pattern):
            with path.open("ab") as stream:
                stream.write(GARBAGE)
    yield
    field.serving.start(ready=False)


@contextmanager
def _site_broken(field: Field, random: Random) -> Iterator[None]:
    text = field.site_file.read_bytes()
    broken = random.choice(
        (b"mode = 'enforce'\n[daemon\n", b"", b"\xff\xfe", text[: len(text) // 2])
    )
    field.site_file.write_bytes(broken)
    field.serving.reload()
    yield
    field.site_file.write_bytes(text)
    field.serving.reload()


@contextmanager
def _bundle_broken(field: Field, _: Random) -> Iterator[None]:
    """The daemon is started again while a bundle is none."""
    manifest = field.bundle / "manifest.json"
    text = manifest.read_bytes()
    manifest.write_bytes(text[: len(text) // 2])
    field.serving.end(signal.SIGTERM)
    field.serving.start(ready=False)
    yield
    manifest.write_bytes(text)


@contextmanager
def _switched_off(field: Field, _: Random) -> Iterator[None]:
    field.kill_switch.touch()
    yield
    field.kill_switch.unlink()


@contextmanager
def _skewed(field: Field, random: Random) -> Iterator[None]:
    clock = field.serving.clock
    assert clock is not None
    clock.set(random.choice((-86_400, -3_600, -61, -1, 1, 61, 3_600, 86_400)))
    yield
    clock.set(0)


KINDS: tuple[Kind, ...] = (
    Kind("killed", _killed, 0.2, 6),
    Kind("stopped", _stopped, 1, 8),
    Kind("restarted", _restarted, 0.1, 2),
    Kind("upgraded", _upgraded, 0.1, 2, possible=lambda f: len(f.serving.binaries) > 1),
    Kind("answers corrupted", _corrupted, 3, 8),
    Kind("database locked", _locked, 1, 8),
    Kind("database vanished", _vanished, 1, 8),
    Kind("disk full", _full, 1, 8, possible=lambda f: f.has_disk),
    Kind("journal corrupted", _journal_broken, 0.2, 3),
    Kind("site file corrupted", _site_broken, 1, 5, inner=True),
    Kind("bundle corrupted", _bundle_broken, 1, 4),
    Kind("switched off", _switched_off, 1, 4, inner=True),
    Kind("clock skewed", _skewed, 2, 6, inner=True, possible=lambda f: f.serving.clock is not None),
)


def kinds_of(field: Field) -> list[Kind]:
    """What can be done here."""
    of_scheduler = [
        Kind(name, lambda _, random, block=block: block(random), 0.2, 3, inner=True)
        for name, block in field.controllers
    ]
    return [kind for kind in (*KINDS, *of_scheduler) if kind.possible(field)]


def remount(folder: Path, size_mib: int) -> bool:
    """A small disk in memory at ``folder``; False where that may not be made."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=755", "tmpfs", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
