"""Applies and resumes that may be killed on the way, each in a fork of this small process.

A fork of the tests' own process copies all that they ever imported, a hundred times as much. Run as
``python crash_server.py LIBRARY STATE``; on standard input one JSON object a line (``target``: a
layout for each GPU, or null for a resume; ``folder``; ``faults``), on standard output the exit
status of each fork.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_nvml import FakeFleet
from scenes import target_of

from berth.pilot.errors import BerthError
from berth.plugin.mig.apply import Applier
from berth.plugin.mig.node import NoKeeper
from berth.plugin.mig.nvml import Nvml


def forked(step: Callable[[], object]) -> int:
    """The status as ``os.waitpid`` gives it; an error of Berth's is an orderly end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            step()
            status = 0
        except BerthError:
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1]


def main(library: str, state: str) -> None:
    fleet = FakeFleet(Path(library), Path(state), keep=True)
    for line in sys.stdin:
        order = json.loads(line)

        def step(order: dict[str, Any] = order) -> None:
            fleet.faults(order["faults"])
            with Nvml() as nvml:
                applier = Applier(nvml, NoKeeper(), Path(order["folder"]))
                if order["target"] is None:
                    applier.resume()
                else:
                    applier.apply(target_of(order["target"]))

        print(forked(step), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
