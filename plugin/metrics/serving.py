"""``berth serve --metrics``: metrics over HTTP until SIGTERM, or once as text."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from berth.plugin.daemon.notify import Notifier
from berth.plugin.metrics.exporter import exporter_of
from berth.plugin.metrics.listening import listening
from berth.plugin.site.load import load_site

log = logging.getLogger("berth.metrics")


def registry_of(site_file: Path) -> CollectorRegistry:
    """Of the site's metrics alone. Raises DocumentError."""
    registry = CollectorRegistry()
    registry.register(exporter_of(load_site(site_file)))
    return registry


def as_text(site_file: Path) -> str:
    """One reading in Prometheus's text format, for a textfile collector."""
    return generate_latest(registry_of(site_file)).decode()


def serve_metrics(site_file: Path, address: str, *, remote: bool = False) -> int:
    """Serve ``/metrics`` at ``address`` until SIGTERM or SIGINT; the exit status.

    Raises DocumentError, and what ``listening`` raises.
    """
    app = make_wsgi_app(registry_of(site_file), disable_compression=True)
    server = listening(address, app, remote=remote)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    thread.start()
    log.info("ready metrics=%s", address)
    notifier = Notifier()
    notifier.tell("READY=1")
    ending.wait()
    notifier.tell("STOPPING=1")
    server.shutdown()
    server.server_close()
    if address.startswith("unix:"):
        Path(address[5:]).unlink(missing_ok=True)
    return 0
