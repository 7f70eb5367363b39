"""``berth site metrics``: Prometheus metrics of a running Berth."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType

import click

from berth.pilot.errors import ToolMissing
from berth.plugin.cli.options import installed_site_option


@click.command()
@installed_site_option
@click.option(
    "--listen", default="127.0.0.1:9808", help="Address to listen on: HOST:PORT, or unix:PATH."
)
@click.option("--allow-remote", is_flag=True, help="Listen on an address that others can reach.")
@click.option("--once", is_flag=True, help="Print them and end.")
def metrics(site_file: Path, *, listen: str, allow_remote: bool, once: bool) -> None:
    """Serve Prometheus metrics of the daemon and the store until SIGTERM (docs/metrics.md).

    \b
    Example:
      berth site metrics --once
      berth site metrics --listen unix:/run/berth-metrics/metrics.sock
    """
    if once:
        click.echo(_serving().as_text(site_file), nl=False)
        return
    from berth.plugin.daemon import systemd  # noqa: PLC0415 - --help and --once need none of it

    systemd.to_stderr(logging.INFO)
    sys.exit(_serving().serve_metrics(site_file, listen, remote=allow_remote))


def _serving() -> ModuleType:
    try:
        from berth.plugin.metrics import serving  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise ToolMissing(
            "prometheus-client", needed_for="metrics", hint="pip install 'berth[metrics]'"
        ) from None
    return serving
