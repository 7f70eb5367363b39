"""A wall clock of its own for the daemon: ahead of the host's or behind it, changed as it runs.

libfaketime cannot be used: where the monotonic clock is to stay as it is, 0.9.10 (Debian 12) makes
every ``time.sleep`` fail, and with that every command that the daemon runs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("skewed_clock.c")
_BYTES = 8


class SkewedClock:
    """``environment`` is what a process needs to live by this clock."""

    def __init__(self, folder: Path, compiler: str) -> None:
        """Compiles a library into ``folder``. Raises CalledProcessError where that fails."""
        library = folder / "skewed_clock.so"
        subprocess.run(
            [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
             "-o", library, _SOURCE],
            check=True,
        )  # fmt: skip
        self._file = folder / "clock"
        self._file.write_bytes(bytes(_BYTES))
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        """So far ahead of the host's, or behind it."""
        with self._file.open("r+b", buffering=0) as stream:
            stream.write(seconds.to_bytes(_BYTES, "little", signed=True))


def c_compiler() -> str | None:
    """What can make the library; None: no clock can be set here."""
    return shutil.which("cc") or shutil.which("gcc")
