"""Keeps a private cluster's daemons and leaves nothing behind, whatever happens to its owner.

Run as a process of its own: ``python cluster_keeper.py ROOT [FOLDER ...]``. It becomes the
reaper of all that its daemons start (job steps detach themselves), starts what it is told to on
standard input (one JSON object a line), and when its standard input closes (the owner ended, was
killed, or asked for it) it ends every descendant and removes the folders.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_POLITE_S = 0.5


def _reap(*_: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _end_everything() -> None:
    """Politely first, then by force, until no descendant is left."""
    deadline = time.monotonic() + _POLITE_S
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended by itself
            process.send_signal(signal.SIGCONT)
            process.terminate()
    while (left := _descendants()) and time.monotonic() < deadline:
        time.sleep(0.02)
    while left := _descendants():
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.02)


def main(root: str, *folders: str) -> None:
    os.setsid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, _reap)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.close(0))
    try:
        for line in sys.stdin:
            order = json.loads(line)
            with open(order["log"], "ab") as log:  # noqa: PTH123
                child = subprocess.Popen(
                    order["argv"],
                    env=order["env"],
                    cwd=root,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            print(child.pid, flush=True)
    except (OSError, ValueError):
        pass  # told to end by a signal, or the owner died in the middle of an order
    finally:
        _end_everything()
        for folder in (*folders, root):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
