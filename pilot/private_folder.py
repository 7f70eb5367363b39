"""Each run of a pilot in a copy of the working folder of its own, as the user left it.

A pilot runs a program several times. In one folder the second run would find the files of the
first (a database that exists already, a checkpoint to go on from) and would overwrite the user's
results. The copies lie beside the working folder: on the same file system, and ``..`` is the same.
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
"""Time when a file was written last (ns), and its size."""


def original(path: str) -> str:
    """Return the path in the user's folder of one in a copy; any other path as it is."""
    return COPY.sub(r"/\1", path)


def why_not(folder: Path) -> str | None:
    """Return why ``folder`` cannot be copied for each run, or None."""
    if not (os.access(folder, os.W_OK) and os.access(folder.parent, os.W_OK)):
        return "there is no right to write beside it"
    until = time.monotonic() + MOST_LOOKING_S
    size = 0
    for files, entry in enumerate(_entries(folder)):
        with suppress(FileNotFoundError):  # removed meanwhile
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
    """Files that a run made or changed in its copy, the first run's."""
    _copied: dict[Path, dict[str, _State]] = field(default_factory=dict)
    """Files of each copy before the run."""

    def enter(self) -> Path:
        """Make a new copy, without files that others remove meanwhile. Raises OSError."""
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
        """Remember what was written in the copy, then remove it."""
        before = self._copied.pop(copy, {})
        if not self.written:
            self.written = sorted(n for n, state in _states(copy) if before.get(n) != state)
        shutil.rmtree(copy, ignore_errors=True)

    def sentence(self) -> str | None:
        """Say which files of the program are not kept; None where it wrote none."""
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
    """Return whether all that a copy lacks was removed while it was made; the rest is copied."""
    if not isinstance(error, shutil.Error) or not isinstance(error.args[0], list):
        return False
    return not any(os.path.lexists(source) for source, *_ in error.args[0])


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield files below ``folder``, links not followed; what cannot be read is left out."""
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
    """Yield the state of each file below a copy.

    It is compared with the copy itself, not with the user's folder, where others write meanwhile
    (the scheduler this pilot's log, the daemon its store).
    """
    for entry in _entries(copy):
        with suppress(FileNotFoundError):
            state = entry.stat(follow_symlinks=False)
            yield str(Path(entry.path).relative_to(copy)), (state.st_mtime_ns, state.st_size)
