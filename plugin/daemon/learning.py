"""Learns from jobs that have ended, in a process of its own.

The daemon only looks whether there is something to learn. The work needs numpy and seconds of a
core, neither of which the answering thread should share: ``berth jobs learn`` runs beside it, at
low priority, and the store's watcher brings its forecasts back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from berth.plugin.daemon.beside import ask_beside
from berth.plugin.site.site import Site
from berth.plugin.store.store import Store

log = logging.getLogger("berth.serve.learning")

LONGEST_S = 600.0


def follow_jobs(
    store: Store, site: Site, *, clock: Callable[[], float] = time.time
) -> Callable[[], None]:
    """A step that runs ``berth jobs learn`` where jobs have ended that were not looked at.

    Raises BerthError where it fails, and StoreError.
    """

    def step() -> None:
        if store.learning.has_work(clock()):
            _learn(site)

    return step


def _learn(site: Site) -> None:
    done = ask_beside(site, "jobs learn", longest_s=LONGEST_S)
    for notice in done["notices"]:
        log.warning("%s", notice)
    log.info(
        "learnt from %d of %d ended jobs: %d forecasts are new",
        done["used"], done["jobs"], len(done["forecasts"]),
    )  # fmt: skip
