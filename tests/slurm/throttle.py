"""Gives a group of processes its cores for a part of the time only: a slower kind of node.

Run as a process: ``python throttle.py FOLDER SHARE``, where FOLDER is a cgroup that can be
frozen. It is let run for SHARE of each period, and thawed when this ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

PERIOD_S = 0.04


def main(folder: str, share: str) -> None:
    path, words = Path(folder) / "freezer.state", ("FROZEN", "THAWED")
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

    def end(*_: object) -> None:
        path.write_text(words[1])
        sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    while True:
        path.write_text(words[1])
        time.sleep(PERIOD_S * float(share))
        path.write_text(words[0])
        time.sleep(PERIOD_S * (1 - float(share)))


if __name__ == "__main__":
    main(*sys.argv[1:])
