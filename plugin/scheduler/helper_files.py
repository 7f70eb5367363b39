"""Reads and writes small JSON files that the daemon shares with the helper that restores moved
jobs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from berth.pilot.documents import write_bytes
from berth.pilot.errors import DocumentError

MAX_BYTES = 1_000_000
T = TypeVar("T")


def read_helper_file(path: Path, form: TypeAdapter[T], absent: T) -> T:
    """Return the content of a JSON file; ``absent`` where the file does not exist.

    Raises DocumentError.
    """
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise DocumentError(str(path), "is no plain file")
            text = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return absent
    except OSError as error:
        raise DocumentError(str(path), f"cannot be read: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise DocumentError(str(path), f"is larger than {MAX_BYTES} bytes")
    try:
        return form.validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise DocumentError(
            str(path), f"is not what `berth site slurm putback` writes: {problem}"
        ) from None


def write_helper_file(
    path: Path, form: TypeAdapter[T], value: T, *, mode: int | None = 0o644, durable: bool = False
) -> None:
    """Write a JSON file atomically; ``durable`` also syncs it to disk. Raises DocumentError."""
    try:
        write_bytes(path, form.dump_json(value, indent=1) + b"\n", mode=mode, durable=durable)
    except OSError as error:
        raise DocumentError(str(path), f"cannot be written: {error.strerror}") from None
