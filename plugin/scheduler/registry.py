"""Schedulers by name: those of ``plugin/entry_points.ini`` and those of other packages."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.documents import Document
from berth.pilot.plugins import Registry, public_names
from berth.plugin.scheduler.protocol import Scheduler

SCHEDULERS: Registry[type[Scheduler]] = Registry(
    "berth.schedulers",
    kind="scheduler",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=public_names(Scheduler),
)
DEFAULT = SCHEDULERS.own()[0]
"""That of a site file which names none."""


def scheduler_named(name: str, settings: Document | None = None) -> Scheduler:
    """The scheduler of that name, with its own settings from the site file.

    Raises UsageError for a name that is not known, or that cannot be imported.
    """
    return SCHEDULERS.load(name)(settings)
