"""Access to this machine's GPUs for commands and the timer: in this process if privileged,
otherwise through the helper, over its socket or by a command such as sudo."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from berth.pilot.errors import BerthError
from berth.plugin.mig import wire
from berth.plugin.mig.apply import Applier, ApplyReport, GpuPreview, read_fleet
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.node import Keeper, NoKeeper
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.settings import HelperSettings, MigSettings
from berth.plugin.mig.target import ApplyTarget

Tell = Callable[[str], None]
MAX_ANSWER_BYTES = 16 * 1024 * 1024
T = TypeVar("T")


class LocalAccess:
    """Reads and repartitions the GPUs in this process, with this process's rights.

    ``preview`` changes nothing, ``apply`` reaches the target layouts or restores the old ones, and
    ``resume`` ends a change that was interrupted. All methods raise BerthError.
    """

    def __init__(self, settings: MigSettings, tell: Tell = lambda _: None) -> None:
        self._settings = settings
        self._tell = tell

    def inventory(self) -> Fleet:
        with Nvml() as nvml:
            return read_fleet(nvml, Path(self._settings.state_dir))

    def preview(self, target: ApplyTarget) -> tuple[GpuPreview, ...]:
        with Nvml() as nvml:
            return self._applier(nvml).preview(target)

    def apply(
        self, target: ApplyTarget, *, wait_s: float = 0.0, enable_mig: bool = False
    ) -> ApplyReport:
        with Nvml() as nvml:
            return self._applier(nvml).apply(target, wait_s=wait_s, enable_mig=enable_mig)

    def resume(self) -> ApplyReport:
        with Nvml() as nvml:
            return self._applier(nvml).resume()

    def _applier(self, nvml: Nvml) -> Applier:
        node = self._settings.node
        keeper: Keeper = NoKeeper() if node is None else node.keeper()
        return Applier(nvml, keeper, Path(self._settings.state_dir), tell=self._tell)


class HelperAccess:
    """Sends each of the same methods as a request to the privileged helper."""

    def __init__(self, settings: HelperSettings, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._tell = tell

    def inventory(self) -> Fleet:
        return self._ask(wire.request("inventory"), wire.FLEET.validate_python)

    def preview(self, target: ApplyTarget) -> tuple[GpuPreview, ...]:
        return self._ask(wire.request("preview", target), wire.PREVIEWS.validate_python)

    def apply(
        self, target: ApplyTarget, *, wait_s: float = 0.0, enable_mig: bool = False
    ) -> ApplyReport:
        asked = wire.request("apply", target, wait_s=wait_s, enable_mig=enable_mig)
        return self._ask(asked, wire.REPORT.validate_python, slack_s=wait_s)

    def resume(self) -> ApplyReport:
        return self._ask(wire.request("resume"), wire.REPORT.validate_python)

    def _ask(self, request: bytes, read: Callable[[Any], T], slack_s: float = 0.0) -> T:
        with self._talk(request) as connection:
            for line in _lines(connection, self._settings.timeout_s + slack_s):
                try:
                    answer = json.loads(line)
                    kind = answer["kind"]
                    if kind == "result":
                        return read(answer["result"])
                except (ValueError, KeyError, TypeError, BerthError) as error:
                    raise BerthError(
                        f"the MIG helper answered something unreadable: {line[:60]!r}"
                    ) from error
                if kind == "error":
                    raise wire.to_error(answer)
                self._tell(str(answer.get("text")))
        raise BerthError(
            "the MIG helper ended without an answer",
            hint="its log tells why; then `berth mig apply --resume`",
        )

    @contextlib.contextmanager
    def _talk(self, request: bytes) -> Iterator[socket.socket]:
        if self._settings.socket:
            with _connected(self._settings.socket) as connection:
                connection.sendall(request)
                yield connection
            return
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                child = subprocess.Popen(
                    self._settings.command, stdin=theirs.fileno(), stdout=theirs.fileno()
                )
            except OSError as error:
                raise BerthError(
                    f"the MIG helper {self._settings.command[0]} could not be started: "
                    f"{error.strerror}"
                ) from None
            theirs.close()
            try:
                ours.sendall(request)
                yield ours
            finally:
                ours.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=1)  # a longer apply is left to finish


def open_access(settings: MigSettings, tell: Tell = lambda _: None) -> LocalAccess | HelperAccess:
    """Return HelperAccess where a helper is configured and this process is not root, else
    LocalAccess."""
    helper = settings.helper
    if os.geteuid() != 0 and (helper.socket or helper.command):
        return HelperAccess(helper, tell)
    return LocalAccess(settings, tell)


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(5)
        connection.connect(path)
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        raise BerthError(
            f"the MIG helper does not listen on {path}: {error.strerror or error}",
            hint="systemctl status berth-mig-helper.socket",
        ) from None
    return connection


def _lines(connection: socket.socket, timeout_s: float) -> Iterator[bytes]:
    """Yield whole lines until the helper closes the connection; each line may take ``timeout_s``
    seconds."""
    buffer = b""
    deadline = time.monotonic() + timeout_s
    while len(buffer) < MAX_ANSWER_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([connection], [], [], left)[0]:
            raise BerthError(
                f"the MIG helper said nothing for {timeout_s:g} s",
                hint="the driver may hang; it holds the lock until it ends",
            )
        try:
            data = connection.recv(65536)
        except OSError:
            data = b""
        if not data:
            return
        buffer += data
        *whole, buffer = buffer.split(b"\n")
        if whole:
            deadline = time.monotonic() + timeout_s
        yield from whole
    raise BerthError("the MIG helper's answer is too long")
