"""The process in which a question of the view *What if* runs: ``berth replay``, within limits.

``python -m berth.plugin.cli.ui.what_if_worker PROGRESS_FILE WORD...``: the words are those of a
command of ``berth``. The progress file gets one line: the activity, steps done, and steps in all.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

from berth.pilot.progress import showing
from berth.plugin.cli.command_line import run

MOST_CPU_S = 3_600
"""Processor time in seconds after which the kernel ends the process."""
MOST_BYTES = 16 * 2**30
"""Address space that the process may use."""
_EVERY_S = 0.3


def main() -> None:
    """Run the command with low priority, and write its progress a few times a second."""
    file, words = Path(sys.argv[1]), sys.argv[2:]
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    written_s = 0.0

    def show(activity: str, done: int, of: int) -> None:
        nonlocal written_s
        if time.monotonic() - written_s >= _EVERY_S:
            written_s = time.monotonic()
            file.write_text(f"{activity}\t{done}\t{of}\n")

    with showing(show):
        run(words)


if __name__ == "__main__":
    main()
