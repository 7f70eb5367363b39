"""A small client of the daemon's socket, for the command line, tests and benchmarks."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError
from berth.plugin.daemon.protocol import MAX_REPLY_BYTES


def exchange(
    path: Path, message: Mapping[str, object], *, timeout_s: float, longest: int
) -> bytearray:
    """Send one line of JSON and return the reply line, or the part of it that arrived.

    Raises OSError; that includes TimeoutError.
    """
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    deadline_s = time.monotonic() + timeout_s
    reply = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(timeout_s)
        peer.connect(str(path))
        with suppress(BrokenPipeError, ConnectionResetError):  # refused: the reply says why
            peer.sendall(line)
        while not reply.endswith(b"\n") and len(reply) <= longest:
            peer.settimeout(max(0.001, deadline_s - time.monotonic()))
            part = peer.recv(1 << 20)
            if not part:
                break
            reply += part
    return reply


def ask(path: Path, message: Mapping[str, object], *, timeout_s: float = 5.0) -> dict[str, Any]:
    """Send one message and return the reply. Raises BerthError where no valid reply comes
    in time."""
    try:
        reply = exchange(path, message, timeout_s=timeout_s, longest=64 * MAX_REPLY_BYTES)
    except TimeoutError:
        raise BerthError(
            f"the daemon at {path} does not answer within {timeout_s:g} s",
            hint="look at its log: journalctl -u berth",
        ) from None
    except PermissionError:
        raise BerthError(
            f"this user may not reach the daemon at {path}",
            hint="ask as root, or as a user of the daemon's group",
        ) from None
    except OSError as error:
        raise BerthError(
            f"no daemon answers at {path}: {error.strerror}",
            hint="start it: systemctl start berth, or berth serve --site FILE",
        ) from None
    if not reply:
        raise BerthError(
            f"the daemon at {path} refuses to talk to this user",
            hint="only root, the daemon's user and daemon.scheduler_users of the site file may ask",
        )
    try:
        answer = json.loads(reply)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise BerthError(f"what listens at {path} does not speak Berth's protocol")
    return answer
