"""A stand-in for ``berth serve`` that speaks docs/protocol.md and can misbehave in many ways."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Reply = dict[str, Any]
KEEP: Reply = {"v": 1, "action": "keep"}


def move_to(queue: str, **edits: Any) -> Reply:
    return {
        "v": 1,
        "action": "edit",
        "edits": {"queue": queue, **edits},
        "stamp": f"berth=1 place={queue}",
        "message": f"berth: this job runs in {queue}; opt out with --comment=berth:off",
        "decision": "d1",
    }


class FakeDaemon:
    """Answers each request by ``answer(request) -> bytes | Reply``; keeps the requests it saw."""

    def __init__(
        self, path: Path, answer: Callable[[dict[str, Any]], Reply | bytes | None]
    ) -> None:
        self.path = path
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.trickle_s = 0.0
        self.close_each = True
        self.connections = 0
        self.afterwards = b""
        """Sent a little after the next reply, unasked."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(peer,), daemon=True).start()

    def _one(self, peer: socket.socket) -> None:
        with suppress(OSError), peer, peer.makefile("rb") as stream:
            while line := stream.readline():
                self._answer(peer, line)
                if self.close_each:
                    return

    def _answer(self, peer: socket.socket, line: bytes) -> None:
        request = json.loads(line)
        self.requests.append(request)
        answer = self.answer(request)
        if answer is None:
            return
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
        if not self.trickle_s:
            peer.sendall(raw)
            if self.afterwards:
                time.sleep(0.01)
                peer.sendall(self.afterwards)
                self.afterwards = b""
            return
        for index in range(len(raw)):
            peer.sendall(raw[index : index + 1])
            time.sleep(self.trickle_s)
