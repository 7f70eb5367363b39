"""What stands between the filters and the daemon: a link to its socket, or a proxy that garbles.

Filters connect by the link. Answers come back changed in the ways of ``GARBLED``.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

_WAIT_S = 1.0


def _flipped(reply: bytes, random: Random) -> bytes:
    found = bytearray(reply)
    for _ in range(random.randint(1, 4)):
        found[random.randrange(len(found))] ^= 1 << random.randrange(8)
    return bytes(found)


def _edited(reply: bytes, random: Random) -> bytes:
    """Well-formed, and not to be carried out."""
    message = json.loads(reply)
    message["action"] = "edit"
    message["edits"] = random.choice((
        {"queue": "closed"}, {"queue": "nowhere"}, {"queue": ""}, {"nodes": -1}, {"priority": 1},
        {"queue": "gpu", "time_limit_min": 1e9}, {"user": "root"}, {}, [], None, {"queue": 7},
    ))  # fmt: skip
    if random.random() < 0.5:
        message.pop("stamp", None)
    return json.dumps(message).encode() + b"\n"


GARBLED: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flipped,
    _edited,
    lambda reply, random: reply[: random.randrange(len(reply))],
    lambda reply, _: reply + reply,
    lambda reply, _: reply.replace(b'"v":1', b'"v":2'),
    lambda *_: b"[]\n",
    lambda *_: b'{"v":1,"action":NaN}\n',
    lambda _, random: bytes(random.randrange(256) for _ in range(200)),
    lambda *_: b'{"v":1,"message":"' + b"x" * 300_000 + b'"}\n',
    lambda *_: b"",
    lambda reply, _: reply,
)
"""The last two: silence, and the answer as it is."""


class Wire:
    """``path`` is where filters connect; it leads to ``daemon`` or to a proxy."""

    def __init__(self, path: Path, daemon: Path) -> None:
        self.path, self._daemon = path, daemon
        self._lead(daemon)

    def _lead(self, target: Path) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        fresh.replace(self.path)

    @contextmanager
    def garbled(self, random: Random) -> Iterator[None]:
        """Who connects meanwhile gets garbled answers."""
        proxy = _Proxy(self.path.with_name("proxy.sock"), self._daemon, random)
        self._lead(proxy.path)
        try:
            yield
        finally:
            self._lead(self._daemon)
            proxy.close()


class _Proxy:
    def __init__(self, path: Path, daemon: Path, random: Random) -> None:
        self.path, self._daemon, self._random = path, daemon, random
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o666)
        self._listener.listen(64)
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Nobody is served any more; kept connections are closed."""
        for one in (self._listener, *self._peers):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            threading.Thread(target=self._one, args=(peer,), daemon=True).start()

    def _one(self, peer: socket.socket) -> None:
        with suppress(OSError), peer.makefile("rb") as stream:
            for line in stream:
                reply = self._asked(line)
                garbled = self._random.choice(GARBLED)(reply, self._random) if reply else b""
                if self._random.random() < 0.1:
                    time.sleep(self._random.random() * 0.2)
                peer.sendall(garbled)

    def _asked(self, line: bytes) -> bytes:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
            daemon.settimeout(_WAIT_S)
            daemon.connect(str(self._daemon))
            daemon.sendall(line)
            return daemon.makefile("rb").readline()
        return b""
