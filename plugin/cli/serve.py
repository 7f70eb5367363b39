"""``berth serve``: runs the daemon that answers submit filters, or shows a running daemon's
state."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from berth.plugin.cli.options import answer, installed_site_option


@click.command()
@installed_site_option
@click.option("--status", is_flag=True, help="Ask the running daemon how it is, and end.")
@click.option("--json", "json_", is_flag=True, help="With --status: as JSON.")
@click.option("--users", is_flag=True, help="Serve users on their own socket instead.")
def serve(
    site_file: Path,
    *,
    status: bool,
    json_: bool,
    users: bool,
) -> None:
    """Answer the scheduler's submit filter on a Unix socket until SIGTERM.

    SIGHUP reads the site file again (so does a change of the file); a broken one is refused and
    the old one stays in force. With --users another process serves the users: what they add to the
    store is theirs by the uid of their connection, and whatever they do there the scheduler's
    questions are answered. Prometheus metrics: `berth site metrics`.

    \b
    Example:
      berth serve --site /etc/berth/berth.toml
      berth serve --users --site /etc/berth/berth.toml
      berth serve --status
    """
    if status and users:
        raise click.UsageError(
            "--status asks the scheduler's daemon; berth site doctor looks at the users' one"
        )
    if status:
        _show_status(site_file, json_=json_)
        return
    from berth.plugin.daemon import systemd  # noqa: PLC0415 - --help and --status need none of it

    systemd.to_stderr(logging.INFO)
    if users:
        from berth.plugin.users.service import serve_users  # noqa: PLC0415

        sys.exit(serve_users(site_file))
    from berth.plugin.daemon.app import Daemon  # noqa: PLC0415

    daemon = Daemon(site_file)
    sys.exit(daemon.run())


def _show_status(site_file: Path, *, json_: bool) -> None:
    from berth.plugin.daemon.client import ask  # noqa: PLC0415
    from berth.plugin.report.of_installation import daemon_part  # noqa: PLC0415
    from berth.plugin.site.load import load_site  # noqa: PLC0415

    site = load_site(site_file)
    stats = ask(site.daemon.socket, {"v": 1, "op": "stats"})
    answer(lambda: daemon_part(site, stats), stats, json_=json_)
