"""Makes schedulers by name: those of ``plugin/entry_points.ini`` and those of other packages."""

from __future__ import annotations

from typing import cast

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.plugin.scheduler.protocol import Scheduler
from berth.plugin.site.schedulers import SCHEDULERS
from berth.plugin.site.site import Site


def scheduler_named(name: str, settings: Document | None = None) -> Scheduler:
    """Return the scheduler of that name, with its settings from the site file.

    Raises UsageError for a name that is unknown, or whose module cannot be imported.
    """
    return cast(type[Scheduler], SCHEDULERS.load(name))(settings)


def all_schedulers() -> tuple[Scheduler, ...]:
    """Return every scheduler that can be imported, with default settings, Berth's own first."""
    return tuple(map(scheduler_named, SCHEDULERS.load_all()))


def open_scheduler(site: Site, name: str | None = None) -> Scheduler:
    """Return the site's scheduler with the site's settings, or scheduler ``name`` with defaults.

    Raises UsageError for an unknown name.
    """
    wanted = name or site.scheduler
    return scheduler_named(wanted, site.scheduler_settings if wanted == site.scheduler else None)


def site_scheduler(site: Site | None) -> Scheduler:
    """Return the site's scheduler, or without a site the one that is installed here.

    Raises UsageError where there is none.
    """
    if site is not None:
        return open_scheduler(site)
    for scheduler in all_schedulers():
        if scheduler.is_here():
            return scheduler
    raise UsageError("no scheduler is on this machine", hint="run this where its commands are")
