"""``berth support-bundle``: one file for whoever is to find out what is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options.common import SITE_FILE, answer, json_option
from berth.plugin.cli.options.where import find_site, site_option
from berth.plugin.doctor.support import gather, write_archive


@click.command("support-bundle")
@site_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write. Default: berth-support-DATE.tar.gz here.",
)
@click.option("--with-names", is_flag=True, help="Keep the names of users and accounts.")
@json_option
def support_bundle(
    site_file: Path | None, output: Path | None, *, with_names: bool, json_: bool
) -> None:
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
    missing = {n: text for n, text in texts.items() if text.startswith("could not be read")}
    lines = [
        f"  {name:<16} {missing.get(name) or f'{len(text.encode()):,} bytes'}"
        for name, text in texts.items()
    ]
    lines.append(f"{target}: read it before you send it (tar xzf {target}).")
    sizes = {name: len(text.encode()) for name, text in texts.items() if name not in missing}
    found = {"file": str(target), "bytes": sizes, "missing": missing}
    answer("\n".join(lines), found, json_=json_)
