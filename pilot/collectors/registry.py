"""Find collectors by name: Berth's own (``pilot/entry_points.ini``) and other packages'."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings, Stage
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.plugins import Registry, public_names

COLLECTORS: Registry[type[Collector]] = Registry(
    "berth.collectors",
    kind="collector",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=public_names(Collector),
)


def names_of(stage: Stage) -> tuple[str, ...]:
    """Return the names of all importable collectors of a stage, in order of precedence.

    If two collectors return the same counter, the earlier one's is used. Berth's own come first.
    """
    return tuple(name for name, kind in COLLECTORS.load_all().items() if kind.stage is stage)


def collector_of(name: str, folder: Path) -> Collector:
    """Return the collector object with this name for one run. Raises UsageError."""
    collector = COLLECTORS.load(name)(folder / name)
    return collector if name in COLLECTORS.own() else Guarded(collector)


class Guarded(Collector):
    """Wraps another package's collector so that its exceptions do not stop the pilot."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.name = collector.name
        self._failure: str | None = None

    def probe(self) -> str | None:
        """Return why the collector cannot be used, or None; an exception counts as a reason."""
        try:
            return self._collector.probe()
        except Exception as error:
            return _said(error)

    def prepare(self, order: Order) -> Order:
        """Return the collector's launch order; after an exception, ``order`` unchanged."""
        try:
            return self._collector.prepare(order)
        except Exception as error:
            self._failure = _said(error)
            return order

    def watch(self, shepherd_pid: int) -> None:
        """Call the collector's ``watch``, unless an earlier call of the collector failed."""
        if self._failure is None:
            try:
                self._collector.watch(shepherd_pid)
            except Exception as error:
                self._failure = _said(error)

    def finish(self, outcome: ProcessResult) -> Readings:
        """Return the collector's final counters; an exception marks it as failed."""
        if self._failure is None:
            try:
                return self._collector.finish(outcome)
            except Exception as error:
                self._failure = _said(error)
        return Readings(detail=self._failure, failed=True)


def _said(error: Exception) -> str:
    return f"it raised {type(error).__name__}: {error}"[:300]
