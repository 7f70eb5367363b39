"""``berth ui``: serves the page over HTTP until SIGTERM or Ctrl-C.

Libraries, bundles and fonts that the first views need are loaded in the background.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import waitress
from flask import Flask

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.daemon.systemd import to_stderr
from berth.plugin.pictures.charts import TimeBar, ranked_times
from berth.plugin.report.of_workload import rank_workload, workload_report
from berth.plugin.ui.app import create_app
from berth.plugin.ui.context import KEY, Context
from berth.plugin.ui.guard import UiSettings
from berth.plugin.workloads.files import WorkloadOptions

_THREADS = 4
_CONNECTIONS = 2_000
_IDLE_S = 20
_MODE = "660"
log = logging.getLogger("berth.ui")


def serve_ui(
    settings: UiSettings, listen: str, *, with_token: bool, announce: Callable[[str], None]
) -> None:
    """Serve at ``HOST:PORT`` (port 0: any free port) or ``unix:PATH``.

    ``announce`` receives the address to open. Raises UsageError for an invalid address, or for one
    that other hosts can reach without a token; BerthError where it cannot be bound.
    """
    to_stderr()
    if with_token:
        settings = replace(settings, token=secrets.token_urlsafe(24))
    options = {
        "threads": _THREADS, "ident": None, "url_prefix": settings.root_path,
        # Connections that ask nothing take no thread, and no place of others.
        "connection_limit": _CONNECTIONS, "channel_timeout": _IDLE_S, "cleanup_interval": _IDLE_S,
        "asyncore_use_poll": True,
    }  # fmt: skip
    try:
        if listen.startswith("unix:"):
            path = _free_socket(Path(listen[5:]))
            app = create_app(settings)
            server = waitress.create_server(
                app, unix_socket=str(path), unix_socket_perms=_MODE, **options
            )
            address = listen
        else:
            bound = _bound(listen, guarded=settings.token is not None)
            host, port = bound.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            settings = replace(settings, hosts=(*settings.hosts, shown), port=port)
            app = create_app(settings)
            server = waitress.create_server(app, sockets=[bound], **options)
            address = f"http://{shown}:{port}{settings.root_path}/"
            address += f"?token={settings.token}" if settings.token else ""
    except OSError as error:
        raise BerthError(
            f"{listen} cannot be listened on: {error.strerror or error}",
            hint="another --listen? 127.0.0.1:PORT or unix:PATH",
        ) from None
    announce(address)
    warm_up(app)
    with suppress(KeyboardInterrupt):
        server.run()


def _bound(listen: str, *, guarded: bool) -> socket.socket:
    name, _, port = listen.rpartition(":")
    try:
        host = ipaddress.ip_address(name.strip("[]"))
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 65_536:
        raise UsageError(f"{listen!r} is no address: 127.0.0.1:PORT, [::1]:PORT or unix:PATH")
    if not (host.is_loopback or guarded):
        raise UsageError(f"{host} can be reached from other machines: leave --no-token out")
    family = socket.AF_INET6 if host.version == 6 else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((str(host), number))
    except OSError:
        listening.close()
        raise
    return listening


def _free_socket(path: Path) -> Path:
    with suppress(FileNotFoundError):
        status = path.lstat()
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
            raise UsageError(f"{path} exists and is no socket of yours")
        path.unlink()
    return path


def warm_up(app: Flask) -> threading.Thread:
    """Start loading slow libraries and data in a thread, and return the thread."""
    thread = threading.Thread(target=_warm, args=(app.extensions[KEY],), daemon=True)
    thread.start()
    return thread


def _warm(page: Context) -> None:
    from berth.plugin.workloads.described_models import DecoderShape, described  # noqa: PLC0415 - numpy

    try:
        ranked_times([TimeBar("warm", (1.0, 2.0, 3.0))])
        shape = DecoderShape(layers=2, width=256)
        for purpose in ("inference", "training", "serve"):
            workload = described(shape, purpose, sequence=None, options=WorkloadOptions())
            workload_report(rank_workload(workload, page.forecaster(), page.site()))
    except BerthError as error:  # the views report the error
        log.info("warming up ended early: %s", error.message)
