"""Who is at the other end of a Unix socket, by the kernel's word."""

from __future__ import annotations

import pwd
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Peer:
    """One user, and whether this user administers the site."""

    uid: int
    name: str
    admin: bool = False


def uid_of(connection: socket.socket) -> int:
    """Return the uid that the other end had when it connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid


def name_of(uid: int) -> str:
    """Return the user's name; ``uid:N`` where there is no such user on this host."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"uid:{uid}"
