"""``berth support-bundle``: one file for whoever is to find out what is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.shared_options import SITE_FILE
from berth.plugin.cli.where import find_site
from berth.plugin.doctor.support import gather, write_archive


@click.command("support-bundle")
@click.option(
    "--site",
    "site_file",
    type=click.Path(path_type=Path),
    envvar="BERTH_SITE",
    help=f"Site file (berth.toml). Default: {SITE_FILE}, where there is one.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write. Default: berth-support-DATE.tar.gz here.",
)
@click.option("--with-names", is_flag=True, help="Keep the names of users and accounts.")
def support_bundle(site_file: Path | None, output: Path | None, *, with_names: bool) -> None:
    """Collect what a maintainer needs: versions, what doctor finds, the site file, the scheduler's
    queues and kinds of nodes, the daemon's counters, the newest decisions and outcomes, its log.

    Users and accounts become user-1, account-2 ...; passwords of URLs, scripts and arguments of
    programs are left out. Nothing is sent anywhere: read it, then send it.

    \b
    Example:
      berth support-bundle --site /etc/berth/berth.toml -o berth-support.tar.gz
    """
    site = find_site(site_file)
    if site is None:
        raise UsageError(f"there is no {SITE_FILE}", hint="give --site FILE")
    target = output or Path(time.strftime("berth-support-%Y%m%d-%H%M%S.tar.gz"))
    texts = gather(site, with_names=with_names)
    write_archive(texts, target)
    for name, text in texts.items():
        missing = text if text.startswith("could not be read") else ""
        click.echo(f"  {name:<16} {missing or f'{len(text.encode()):,} bytes'}")
    click.echo(f"{target}: read it before you send it (tar xzf {target}).")
