"""Learns from jobs that have ended, in a process of its own.

The daemon only looks whether there is something to learn. The work needs numpy and seconds of a
core, neither of which the answering thread should share: ``berth learn`` runs beside it, at low
priority, and the store's watcher brings its forecasts back.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable

from berth.pilot.errors import BerthError
from berth.plugin.site.site import Site
from berth.plugin.store.store import Store

log = logging.getLogger("berth.serve.learning")

LONGEST_S = 600.0
_NICE = 10


def follow_jobs(
    store: Store, site: Site, *, clock: Callable[[], float] = time.time
) -> Callable[[], None]:
    """A step that runs ``berth learn`` where jobs have ended that were not looked at.

    Raises BerthError where it fails, and StoreError.
    """

    def step() -> None:
        if not store.learning.has_work(clock()):
            return
        done = _run(site)
        for notice in done["notices"]:
            log.warning("%s", notice)
        log.info(
            "learnt from %d of %d ended jobs: %d forecasts are new",
            done["used"], done["jobs"], len(done["forecasts"]),
        )  # fmt: skip

    return step


def _run(site: Site) -> dict[str, list[str]]:
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "learn", "--json", "--site", site.source]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("BERTH_STORE", None)
    try:
        done = subprocess.run(  # our own command, without a shell
            ["nice", "-n", str(_NICE), *command],
            env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BerthError(f"berth learn did not end: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise BerthError(f"berth learn failed: {said[-1] if said else done.returncode}")
    try:
        answer: dict[str, list[str]] = json.loads(done.stdout)
    except ValueError:
        raise BerthError("berth learn answered with something else than JSON") from None
    return answer
