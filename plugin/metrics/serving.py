"""``berth site metrics``: serves metrics over HTTP on a local address or socket, or prints them."""

from __future__ import annotations

import ipaddress
import logging
import re
import signal
import socket
import socketserver
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.daemon.systemd import Notifier
from berth.plugin.metrics.exporter import exporter_of
from berth.plugin.site.load import load_site

_ADDRESS = re.compile(r"\[?(?P<host>[0-9a-fA-F.:]+?)\]?:(?P<port>\d{1,5})")
_TIMEOUT_S = 10.0
_AT_ONCE = 16
"""Connections served at a time; more wait to be accepted."""
_MODE = 0o660


class _Quiet(WSGIRequestHandler):
    timeout = _TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class
        """Log nothing: there are too many scrapes."""

    def address_string(self) -> str:
        return "peer"


class _MetricsServer(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = _AT_ONCE


class _Server6(_MetricsServer):
    address_family = socket.AF_INET6


class _UnixServer(_MetricsServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        return self.socket.accept()[0], ("local", 0)


def listening(address: str, app: Callable[..., object], *, remote: bool = False) -> WSGIServer:
    """Return a server bound to ``HOST:PORT`` or ``unix:PATH``.

    Raises UsageError for any other address, or a non-local one without ``remote``; BerthError
    where the address cannot be bound.
    """
    try:
        server = _unix(Path(address[5:])) if address.startswith("unix:") else _tcp(address, remote)
    except OSError as error:
        raise BerthError(
            f"{address} cannot be listened on: {error.strerror or error}",
            hint="another --listen? 127.0.0.1:PORT or unix:PATH",
        ) from None
    server.set_app(app)  # type: ignore[arg-type]
    return server


def _tcp(address: str, remote: bool) -> WSGIServer:
    match = _ADDRESS.fullmatch(address)
    try:
        host = ipaddress.ip_address(match["host"] if match else "")
        port = int(match["port"]) if match else 0
    except ValueError:
        port = 0
    if not 0 < port < 65_536:
        raise UsageError(f"{address!r} is no address: 127.0.0.1:PORT, [::1]:PORT or unix:PATH")
    if not host.is_loopback and not remote:
        raise UsageError(
            f"{host} can be reached from other machines",
            hint="add --allow-remote if a firewall or a proxy guards it; metrics name no users",
        )
    kind = _Server6 if host.version == 6 else _MetricsServer
    return kind((str(host), port), _Quiet)


def _unix(path: Path) -> WSGIServer:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(f"{path} exists and is no socket")
        with socket.socket(socket.AF_UNIX) as other:
            try:
                other.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise UsageError(f"another process serves {path}")
    server = _UnixServer(str(path), _Quiet)  # type: ignore[arg-type]
    path.chmod(_MODE)
    return server


log = logging.getLogger("berth.metrics")


def registry_of(site_file: Path) -> CollectorRegistry:
    """Return a registry that contains only the site's metrics. Raises DocumentError."""
    registry = CollectorRegistry()
    registry.register(exporter_of(load_site(site_file)))
    return registry


def as_text(site_file: Path) -> str:
    """Return the current metrics in Prometheus's text format, for a textfile collector."""
    return generate_latest(registry_of(site_file)).decode()


def serve_metrics(site_file: Path, address: str, *, remote: bool = False) -> int:
    """Serve ``/metrics`` at ``address`` until SIGTERM or SIGINT; return the exit status.

    Raises DocumentError, and the errors of ``listening``.
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
