"""Give each run of a pilot a fresh copy of the working folder.

A pilot runs a program several times. In a shared folder the second run would find files of the
first run (an existing database, a checkpoint to resume from) and would overwrite the user's
results. The copies are made in the parent of the working folder, so that they are on the same file
system and ``..`` is the same folder.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 256 << 20
MOST_FILES = 2_000
MOST_LOOKING_S = 1.0
NAMED_FILES = 5
COPY = re.compile(r"/\.([^/]+)-berth-[A-Za-z0-9_]{8}(?=/|$)", re.ASCII)

_State = tuple[int, int]
"""Modification time of a file in nanoseconds, and its size in bytes."""


def original(path: str) -> str:
    """Return ``path`` with a copied folder replaced by the user's folder; others unchanged."""
    return COPY.sub(r"/\1", path)


def why_not(folder: Path) -> str | None:
    """Return why ``folder`` cannot be copied for each run, or None."""
    if not (os.access(folder, os.W_OK) and os.access(folder.parent, os.W_OK)):
        return "there is no right to write beside it"
    until = time.monotonic() + MOST_LOOKING_S
    size = 0
    for files, entry in enumerate(_entries(folder)):
        with suppress(FileNotFoundError):  # another process removed the file
            size += entry.stat(follow_symlinks=False).st_size
        if size > MOST_BYTES:
            return f"it holds more than {MOST_BYTES >> 20} MiB"
        if files >= MOST_FILES or time.monotonic() > until:
            return f"it holds more than {files} files"
    return None


@dataclass(slots=True)
class PrivateFolders:
    """Copies of one folder, one for each run."""

    folder: Path
    written: list[str] = field(default_factory=list)
    """Files that the program created or changed in its copy, from the first run with any."""
    _copied: dict[Path, dict[str, _State]] = field(default_factory=dict)
    """State of each file before the run, by copy and file."""

    def enter(self) -> Path:
        """Make a copy of the working folder and return the copy's path. Raises OSError.

        Files that other processes remove during the copying are left out.
        """
        copy = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}-berth-", dir=self.folder.parent))
        try:
            shutil.copytree(self.folder, copy, symlinks=True, dirs_exist_ok=True)
        except OSError as error:
            if not _only_gone(error):
                shutil.rmtree(copy, ignore_errors=True)
                raise
        self._copied[copy] = dict(_states(copy))
        return copy

    def leave(self, copy: Path) -> None:
        """Record which files the run wrote in a copy of the folder, then remove the copy."""
        before = self._copied.pop(copy, {})
        if not self.written:
            self.written = sorted(n for n, state in _states(copy) if before.get(n) != state)
        shutil.rmtree(copy, ignore_errors=True)

    def sentence(self) -> str | None:
        """Return a warning that names the program's output files, which are lost; None if none."""
        if not self.written:
            return None
        shown = ", ".join(self.written[:NAMED_FILES])
        more = len(self.written) - NAMED_FILES
        return (
            f"each run had a private copy of the working folder: what the program wrote there "
            f"({shown}{f' and {more} more' if more > 0 else ''}) is not kept; "
            "run it without the pilot for its results, or with --in-place"
        )


def _only_gone(error: OSError) -> bool:
    """Return whether copying a folder failed only for files that were removed meanwhile."""
    if not isinstance(error, shutil.Error) or not isinstance(error.args[0], list):
        return False
    return not any(os.path.lexists(source) for source, *_ in error.args[0])


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files below ``folder`` without following links; unreadable folders are left out."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))
        else:
            yield entry


def _states(copy: Path) -> Iterator[tuple[str, _State]]:
    """Yield (relative path, state) of each file below a copy.

    States are compared within the copy, before and after the run, and not with the user's folder:
    other processes write there during the run (the scheduler writes the pilot's log, for example).
    """
    for entry in _entries(copy):
        with suppress(FileNotFoundError):
            state = entry.stat(follow_symlinks=False)
            yield str(Path(entry.path).relative_to(copy)), (state.st_mtime_ns, state.st_size)
