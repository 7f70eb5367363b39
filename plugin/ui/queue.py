"""Live replays for the page: made beside its answers, and shown for a minute."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.cli.replay.live import Live, live_replays
from berth.plugin.report.of_queue import queue_report
from berth.plugin.report.parts import Report

FRESH_S = 60.0
PATIENCE_S = 1.2
"""An answer waits so long for a replay that is being made."""


@dataclass
class _Made:
    """One replay, done or failed."""

    live: Live | None
    problem: BerthError | None
    made_s: float


class Replays:
    """One replay at a time, whoever asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[tuple[Path | None, str | None], _Made] = {}
        self._working: threading.Thread | None = None

    def of(self, site_file: Path | None, store_url: str | None, only: str | None) -> Report | None:
        """The report for who asks; None: it is still being made. Raises BerthError."""
        key = (site_file, store_url)
        with self._lock:
            made = self._made.get(key)
            working = self._working
            # What failed is tried again at once: it may be mended.
            is_old = (
                made is None or made.problem is not None or time.monotonic() - made.made_s > FRESH_S
            )
            if is_old and (working is None or not working.is_alive()):
                working = threading.Thread(target=self._make, args=key, daemon=True)
                self._working = working
                working.start()
        if is_old and working is not None:
            working.join(PATIENCE_S)
            made = self._made.get(key, made)
        if made is None:
            return None
        if made.problem is not None:
            raise made.problem
        return None if made.live is None else queue_report(made.live, only)

    def _make(self, site_file: Path | None, store_url: str | None) -> None:
        failed = BerthError("the replay of the queue failed", hint="see what the page printed")
        made = _Made(None, failed, time.monotonic())
        try:
            made = _Made(live_replays(site_file, store_url), None, time.monotonic())
        except BerthError as error:
            made = _Made(None, error, time.monotonic())
        finally:
            with self._lock:
                self._made[site_file, store_url] = made
