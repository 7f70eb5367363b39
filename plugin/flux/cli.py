"""The commands of ``berth site flux``, with which an administrator sets up Flux's submit filter."""

from __future__ import annotations

from pathlib import Path

import click

from berth.plugin.cli.options import installed_site_option


@click.group()
def flux() -> None:
    """Set up the Flux submit filter (the frobnicator).

    Example: berth site flux filter-config --site /etc/berth/berth.toml
    """


@flux.command("filter-path")
def filter_path() -> None:
    """Print where the filter (frobnicator.py) is.

    Example: install -m 644 "$(berth site flux filter-path)" /etc/flux/berth_frobnicator.py
    """
    from berth.plugin.flux.filter import FILTER_PATH  # noqa: PLC0415 - pydantic is slow

    click.echo(FILTER_PATH)


@flux.command("mig-path")
def mig_path() -> None:
    """Print where the job shell's plugin for MIG slices (mig_slices.lua) is.

    Example: install -m 644 "$(berth site flux mig-path)" /etc/flux/shell/lua.d/
    """
    from berth.plugin.flux.filter import MIG_SLICES_PATH  # noqa: PLC0415 - pydantic is slow

    click.echo(MIG_SLICES_PATH)


@flux.command("filter-config")
@installed_site_option
def config(site_file: Path) -> None:
    """Print Flux's configuration for the filter, made from the site file.

    Example: berth site flux filter-config --site berth.toml > /etc/flux/system/conf.d/berth.toml
    """
    from berth.plugin.flux.filter import FILTER_PATH, filter_config  # noqa: PLC0415
    from berth.plugin.site import load_site  # noqa: PLC0415 - pydantic is slow to import

    click.echo(filter_config(load_site(site_file), FILTER_PATH.absolute()), nl=False)
