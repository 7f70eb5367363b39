"""The options that name a site file and a store: the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from berth.plugin.installed_site import SITE_FILE


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--site`` and ``--store``, given to the command as ``site_file`` and ``store_url``."""
    command = click.option(
        "--store",
        "store_url",
        envvar="BERTH_STORE",
        help="Store, as a path or URL. Default: the site file's.",
    )(command)
    return site_option(command)


def site_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--site``, given to the command as ``site_file``: a path, or None for find_site."""
    return click.option(
        "--site",
        "site_file",
        type=click.Path(path_type=Path),
        envvar="BERTH_SITE",
        help=f"Site file (berth.toml). Default: {SITE_FILE}, where there is one.",
    )(command)
