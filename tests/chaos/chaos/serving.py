"""``berth serve`` as a supervisor keeps it: started, signalled, started again, upgraded."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from berth_daemon import wait_until

from chaos.clock import SkewedClock, c_compiler

READY_S = 300.0
"""A start takes a second; on a machine where others want every core, minutes."""

_REFUSED = (1, 2)
"""Exit statuses of a refusal: something failed; what it was started with cannot be used."""


class Serving:
    """One daemon on ``site``. ``clock``: what its time is, where that can be set."""

    def __init__(
        self,
        binaries: Sequence[Sequence[str]],
        site: Path,
        socket_path: Path,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.binaries = [tuple(words) for words in binaries]
        self.site, self.socket, self.log = site, socket_path, log
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self.problems: list[str] = []
        self.starts = self.dropped = self.unjournalled = 0
        compiler = c_compiler()
        self.clock = SkewedClock(site.parent, compiler) if compiler else None
        if self.clock is not None:
            self._environment.update(self.clock.environment)

    def start(self, *, ready: bool = True) -> None:
        """Start it, and wait until it answers. To be called from the thread that lives longest."""
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.binaries[0], "serve",
                 "--site", str(self.site)],
                env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        if ready:
            wait_until(self.answers, READY_S, what=f"the daemon answers; {self.tail()}")

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it, stopped or not, and wait for it."""
        assert self._process is not None
        self.look()
        self.count()
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)
        status = self._process.wait(READY_S)
        if number == signal.SIGTERM and status not in (0, -signal.SIGTERM):
            self.problems.append(f"the daemon ended with {status} when told to stop; {self.tail()}")

    def signal(self, number: int) -> None:
        """Send a signal to it, where it runs."""
        assert self._process is not None
        self._process.send_signal(number)

    def reload(self) -> None:
        """Have it read its site file, where it answers: like systemd, nobody reloads what still
        starts (it reads the file then, and SIGHUP would end it)."""
        if self.ask("ping") is not None:
            self.signal(signal.SIGHUP)

    def look(self) -> None:
        """Start it again where it has ended by itself, as a supervisor does. That is a problem,
        unless it refused in a sentence what it was started with (a broken site file)."""
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return
        tail = self.tail()
        said = tail.strip().splitlines() or [""]
        if status not in _REFUSED or not said[-1].startswith("berth: "):
            self.problems.append(f"the daemon ended by itself with {status}; {tail}")
        self.start(ready=False)

    def count(self) -> None:
        """Remember what it has given up so far: a new one counts from nothing."""
        recorder = (self.ask("stats") or {}).get("recorder")
        if recorder:
            self.dropped += recorder["dropped"]
            self.unjournalled += recorder["unjournalled"]

    def ask(self, op: str, patience_s: float = 2.0) -> dict[str, Any] | None:
        """Its answer to ``ping`` or ``stats``; None: there is none."""
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(patience_s)
            peer.connect(str(self.socket))
            peer.sendall(json.dumps({"v": 1, "op": op}).encode() + b"\n")
            found: dict[str, Any] = json.loads(peer.makefile("rb").readline())
            return found
        return None

    def answers(self) -> bool:
        """Whether it says anything, and knows what the scheduler has; it is kept alive."""
        self.look()
        return (self.ask("stats") or {}).get("state_age_s") is not None

    def settle(self, store: Path, patience_s: float = READY_S) -> None:
        """Wait until it has written down all that it answered; a problem where it does not."""

        def settled() -> bool:
            recorder = (self.ask("stats") or {}).get("recorder") or {}
            spool = store.with_name(store.name + ".spool.jsonl")
            waits = spool.exists() and spool.stat().st_size > 0
            return recorder.get("queued") == 0 and recorder.get("problem") is None and not waits

        try:
            wait_until(settled, patience_s, what="decisions arrive in the store")
        except AssertionError as error:
            self.problems.append(f"{error}; {self.ask('stats')}; {self.tail()}")

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-800:] if self.log.exists() else ""


def now() -> float:
    """The host's clock, by which all of a history is written."""
    return time.time()
