"""Collectors by name: those of ``pilot/entry_points.ini`` and those of other packages."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings, Stage
from berth.pilot.launch import Order, Outcome
from berth.pilot.plugins import Registry, public_names

COLLECTORS: Registry[type[Collector]] = Registry(
    "berth.collectors",
    kind="collector",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=public_names(Collector),
)


def names_of(stage: Stage) -> tuple[str, ...]:
    """Return every collector of that stage that can be imported, best first.

    Where two give the same counter, the earlier one's stands: Berth's own before others.
    """
    return tuple(name for name, kind in COLLECTORS.load_all().items() if kind.stage is stage)


def collectors_of(name: str, folder: Path) -> list[Collector]:
    """Return the collectors of one pilot under that name. Raises UsageError for an unknown one."""
    collectors = list(COLLECTORS.load(name).runs(folder / name))
    return (
        collectors if name in COLLECTORS.own() else [Guarded(collector) for collector in collectors]
    )


class Guarded(Collector):
    """A collector of another package: an exception fails that collector and not the pilot."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.name = collector.name
        self.covered_by = collector.covered_by
        self._failure: str | None = None

    def probe(self) -> str | None:
        """Ask the collector; an exception is the reason why it cannot be used."""
        try:
            return self._collector.probe()
        except Exception as error:
            return _said(error)

    def prepare(self, order: Order) -> Order:
        """Ask the collector; after an exception the order stays as it is."""
        try:
            return self._collector.prepare(order)
        except Exception as error:
            self._failure = _said(error)
            return order

    def watch(self, shepherd_pid: int) -> None:
        """Let the collector watch; it is not called again once it has failed."""
        if self._failure is None:
            try:
                self._collector.watch(shepherd_pid)
            except Exception as error:
                self._failure = _said(error)

    def finish(self, outcome: Outcome) -> Readings:
        """Ask the collector; after an exception it has failed."""
        if self._failure is None:
            try:
                return self._collector.finish(outcome)
            except Exception as error:
                self._failure = _said(error)
        return Readings(detail=self._failure, failed=True)


def _said(error: Exception) -> str:
    return f"it raised {type(error).__name__}: {error}"[:300]
