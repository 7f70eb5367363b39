"""``berth-mig-helper``: the only part of Berth that runs as root.

It serves one request on standard input and output and then ends. systemd starts it for each
connection to its socket (``Accept=yes``), or sudo does. It knows four commands, validates every
field of a request, takes all paths and programs from ``/etc/berth/mig.toml``, which only root can
change, and learns the caller's user id from the kernel or from sudo.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any

from berth.pilot.documents import parse_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import whole_number
from berth.plugin.mig import settings as site
from berth.plugin.mig import wire
from berth.plugin.mig.access import LocalAccess
from berth.plugin.mig.settings import MigSettings
from berth.plugin.usernames import name_of, peer_uid

REQUEST_TIMEOUT_S = 10.0
_LOG = logging.getLogger("berth-mig-helper")
_CALLER_VARIABLES = ("SUDO_UID", "PKEXEC_UID")


def main(arguments: list[str] | None = None) -> None:
    """Serve one request. Exit status 0: a request was answered, if only by an error line; 2: no
    request."""
    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s", level=logging.INFO)
    os.umask(0o022)
    words = sys.argv[1:] if arguments is None else arguments
    try:
        config = _config(words)
        uid = _caller()
        settings = site.load_trusted(config)
        _check_allowed(uid, settings)
        request = parse_json(_read_line(), wire.HelperRequest, source="the request")
        _LOG.info("uid %d asks for %s", uid, request.command)
        _say({"kind": "result", "result": _serve(request, settings)})
    except BerthError as error:
        _LOG.warning("refused: %s", error.message)
        _say(wire.error_line(error))


def _serve(request: wire.HelperRequest, settings: MigSettings) -> Any:
    gpus = LocalAccess(settings, lambda text: _say({"kind": "progress", "text": text}))
    if request.command == "inventory":
        return wire.FLEET.dump_python(gpus.inventory(), mode="json")
    if request.command == "preview":
        return wire.PREVIEWS.dump_python(gpus.preview(request.target), mode="json")
    if request.command == "resume":
        report = gpus.resume()
    else:
        report = gpus.apply(request.target, wait_s=request.wait_s, enable_mig=request.enable_mig)
    return wire.REPORT.dump_python(report, mode="json")


def _config(words: list[str]) -> Path:
    """Return the settings file; only root without sudo may name another file."""
    if not words:
        return site.PATH
    foreign = any(name in os.environ for name in _CALLER_VARIABLES)
    if len(words) == 2 and words[0] == "--config" and not foreign:
        return Path(words[1])
    raise UsageError("the MIG helper takes no arguments")


def _caller() -> int:
    """Return the caller's user id: from sudo's variables, else from the socket's peer, else this
    process's."""
    for name in _CALLER_VARIABLES:
        uid = whole_number(os.environ.get(name, ""))
        if uid is not None:
            return uid
    if stat.S_ISSOCK(os.fstat(0).st_mode):
        with socket.socket(fileno=os.dup(0)) as connection:
            if connection.family == socket.AF_UNIX:
                return peer_uid(connection)
    return os.getuid()


def _check_allowed(uid: int, settings: MigSettings) -> None:
    if uid == 0:
        return
    name = name_of(uid)
    if name not in settings.helper.allowed_users:
        raise UsageError(
            f"{name} may not use the MIG helper",
            hint=f"root names who may in {site.PATH}: [helper] allowed_users",
        )


def _read_line() -> bytes:
    """Return one line of at most MAX_BYTES, read within REQUEST_TIMEOUT_S. Raises UsageError."""
    data = b""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while b"\n" not in data:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([0], [], [], left)[0]:
            raise UsageError("no request came in time")
        part = os.read(0, 65536)
        if not part:
            raise UsageError("the request ended before its line did")
        data += part
        if len(data) > wire.MAX_BYTES:
            raise UsageError(f"the request is longer than {wire.MAX_BYTES} bytes")
    return data.partition(b"\n")[0]


def _say(line: dict[str, Any]) -> None:
    """Send one JSON line to the caller; a caller that has gone away does not stop an apply in
    progress."""
    data = json.dumps(line).encode() + b"\n"
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        _LOG.info("the caller is gone")


if __name__ == "__main__":
    main()
