"""The view *Site*: is the installation sound, how good are its predictions, what do they gain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache

from flask import Blueprint, render_template

from berth.pilot.errors import BerthError
from berth.plugin.accuracy import summarise
from berth.plugin.cli.gain import gain_text, gains_of
from berth.plugin.cli.outcomes import ACCURACY, accuracy_cells
from berth.plugin.doctor.examine import examine
from berth.plugin.doctor.findings import Finding
from berth.plugin.learning.shown import changes_since
from berth.plugin.site import Site
from berth.plugin.store import OutcomeRecord
from berth.plugin.ui.context import context
from berth.plugin.ui.tables import Table
from berth.policies.values import Candidate

view = Blueprint("site", __name__)
DAYS = 30.0
_FRESH_S = 60.0
"""An examination asks the scheduler and the daemon: once a minute at most."""


class _Examined:
    """The last examination of a site file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: tuple[float, str, list[Finding]] | None = None

    def of(self, site: Site) -> list[Finding]:
        """The findings, at most a minute old."""
        with self._lock:
            known, now_s = self._found, time.monotonic()
            if known is None or known[1] != site.digest or now_s - known[0] > _FRESH_S:
                known = self._found = (now_s, site.digest, list(examine(site)))
            return known[2]


_examined = _Examined()


@view.route("/site")
def site() -> str:
    """Each part by itself: one that cannot be read says so, and the others go on."""
    here = context()
    try:
        known = here.site()
    except BerthError as error:
        return render_template("site.html", site=None, problem=error)
    since_s = time.time() - DAYS * 86_400.0

    @cache
    def ended() -> list[OutcomeRecord]:
        return list(here.whole_store().outcomes.between(since_s, time.time()))

    def accuracy() -> list[Table]:
        return [
            Table(
                f"Predicted against real times, by {by}",
                [word.capitalize() for word in (by, *ACCURACY[1:])],
                [accuracy_cells(row) for row in summarise(ended(), by)],
            )
            for by in ("platform", "profile")
        ]

    def gain() -> str:
        return gain_text(gains_of(here.whole_store(), ended(), known, None))

    def changes() -> list[str]:
        return list(changes_since(here.whole_store(), since_s))

    return render_template(
        "site.html",
        site=known,
        problem=None,
        days=DAYS,
        findings=[] if here.is_demo else _examined.of(known),
        places=_places(known),
        accuracy=_part(accuracy),
        gain=_part(gain),
        changes=_part(changes),
    )


def _part(read: Callable[[], object]) -> tuple[object, BerthError | None]:
    """What was read, or why not."""
    try:
        return read(), None
    except BerthError as error:
        return None, error


def _places(site: Site) -> Table:
    return Table(
        "Places that jobs may be sent to",
        ("Candidate", "Partition", "Platform", "Cores a node", "GPUs a node"),
        [_place(candidate) for candidate in site.candidates],
    )


def _place(candidate: Candidate) -> tuple[str, ...]:
    return (
        candidate.name,
        candidate.queue or "-",
        candidate.platform,
        str(candidate.cores_per_node),
        str(candidate.gpus_per_node or "-"),
    )
