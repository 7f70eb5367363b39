"""Options that mean the same in several commands and are light to import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.units import parse_duration_s

SITE_FILE = Path("/etc/berth/berth.toml")


def installed_site_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--site`` for commands that cannot do without a site file, given as ``site_file``."""
    return click.option(
        "--site",
        "site_file",
        type=click.Path(path_type=Path),
        envvar="BERTH_SITE",
        default=SITE_FILE,
        show_default=True,
        help="Site file (berth.toml).",
    )(command)


def seconds_of(option: str, text: str) -> float:
    """A duration in seconds, as ``90``, ``10m`` or ``2h``. Raises UsageError naming the option."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} {error}") from None
