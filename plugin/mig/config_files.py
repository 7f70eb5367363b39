"""Files of the scheduler's configuration: read as they are, replaced whole, owner and mode kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from berth.pilot.errors import BerthError


def read(path: Path) -> str:
    """The text. Raises BerthError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BerthError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise BerthError(f"{path}: cannot be read: {error.strerror}") from None


def replace(path: Path, text: str) -> None:
    """Write atomically and flush to the disk; a symbolic link keeps pointing where it does."""
    real = path.resolve()
    temporary = None
    try:
        before = real.stat()
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), before.st_mode & 0o7777)
            if os.geteuid() == 0:
                os.fchown(stream.fileno(), before.st_uid, before.st_gid)
            os.fsync(stream.fileno())
        Path(temporary).replace(real)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise BerthError(f"{path}: cannot be written: {error.strerror}") from None
