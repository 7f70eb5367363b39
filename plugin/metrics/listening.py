"""Where metrics are served: a loopback address, or a Unix socket."""

from __future__ import annotations

import ipaddress
import re
import socket
import socketserver
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from berth.pilot.errors import BerthError, UsageError

_ADDRESS = re.compile(r"\[?(?P<host>[0-9a-fA-F.:]+?)\]?:(?P<port>\d{1,5})")
_TIMEOUT_S = 10.0
_AT_ONCE = 16
"""Connections; more wait to be accepted."""
_MODE = 0o660


class _Quiet(WSGIRequestHandler):
    timeout = _TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class
        """Scrapes are not logged."""

    def address_string(self) -> str:
        return "peer"


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = _AT_ONCE


class _Server6(_Server):
    address_family = socket.AF_INET6


class _UnixServer(_Server):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        return self.socket.accept()[0], ("local", 0)


def listening(address: str, app: Callable[..., object], *, remote: bool = False) -> WSGIServer:
    """A server bound to ``HOST:PORT`` or ``unix:PATH``.

    Raises UsageError for an address that is neither, or not of this machine unless ``remote``;
    BerthError where it cannot be had.
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
    kind = _Server6 if host.version == 6 else _Server
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
