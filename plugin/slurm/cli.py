"""``berth slurm``: what an administrator needs to set the submit filter up."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def slurm() -> None:
    """Set up the Slurm submit filter.

    Example: cp "$(berth slurm filter-path)" /etc/slurm/job_submit.lua
    """


@slurm.command("filter-path")
def filter_path() -> None:
    """Print where the filter (job_submit.lua) is.

    Example: cp "$(berth slurm filter-path)" /etc/slurm/job_submit.lua
    """
    from berth.plugin.slurm.filter import FILTER_PATH  # noqa: PLC0415 - pydantic is slow

    click.echo(FILTER_PATH)


@slurm.command("filter-config")
@click.option(
    "--site",
    "site_file",
    required=True,
    type=click.Path(path_type=Path),
    envvar="BERTH_SITE",
    help="Site file (berth.toml).",
)
def config(site_file: Path) -> None:
    """Print the filter's configuration, made from the site file.

    The filter reads /etc/berth/filter.conf, again every few seconds.

    Example: berth slurm filter-config --site /etc/berth/berth.toml > /etc/berth/filter.conf
    """
    from berth.plugin.site import load_site  # noqa: PLC0415 - pydantic is slow to import
    from berth.plugin.slurm.filter import filter_config  # noqa: PLC0415

    click.echo(filter_config(load_site(site_file)), nl=False)
