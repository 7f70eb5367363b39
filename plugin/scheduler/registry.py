"""Finds schedulers by name: those of ``plugin/entry_points.ini`` and those of other packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.documents import D, Document, validate
from berth.pilot.errors import DocumentError
from berth.pilot.plugins import Registry, public_names
from berth.plugin.scheduler.protocol import Scheduler

if TYPE_CHECKING:
    from berth.plugin.site.site import Site

SCHEDULERS: Registry[type[Scheduler]] = Registry(
    "berth.schedulers",
    kind="scheduler",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=public_names(Scheduler),
)
DEFAULT = SCHEDULERS.own()[0]
"""The scheduler of a site file that names none."""


def own_table(name: str, table: object, model: type[D], *, source: Path) -> D:
    """Return the site file's table of the scheduler ``name``, validated against ``model``.

    Raises DocumentError, whose key is the invalid key prefixed by ``name``.
    """
    try:
        return validate(table, model, source=source)
    except DocumentError as error:
        key = f"{name}.{error.key}" if error.key else name
        raise DocumentError(source, error.problem, key=key, hint=error.hint) from None


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
