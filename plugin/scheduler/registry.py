"""Finds schedulers by name: those of ``plugin/entry_points.ini`` and those of other packages."""

from __future__ import annotations

from berth.pilot.documents import Document
from berth.pilot.plugins import Registry, public_names
from berth.plugin.scheduler.protocol import Scheduler
from berth.plugin.site.schedulers import GROUP, OWN_SCHEDULERS, SchedulerTraits
from berth.plugin.site.site import Site

SCHEDULERS: Registry[type[Scheduler]] = Registry(
    GROUP,
    kind="scheduler",
    own=OWN_SCHEDULERS,
    needs=(*public_names(SchedulerTraits), *public_names(Scheduler)),
)


def scheduler_named(name: str, settings: Document | None = None) -> Scheduler:
    """Return the scheduler of that name, with its settings from the site file.

    Raises UsageError for a name that is unknown, or whose module cannot be imported.
    """
    return SCHEDULERS.load(name)(settings)


def open_scheduler(site: Site, name: str | None = None) -> Scheduler:
    """Return the site's scheduler with the site's settings, or scheduler ``name`` with defaults.

    Raises UsageError for an unknown name.
    """
    wanted = name or site.scheduler
    return scheduler_named(wanted, site.scheduler_settings if wanted == site.scheduler else None)
