"""The listening socket: created atomically, owned by one daemon, and checked for removal.

A lock file beside the socket (``flock``) shows whether its owner lives, even if it hangs; without
the lock, the socket file is stale. The socket is bound under a temporary name, given its mode, and
then renamed, so that nobody can connect while the mode is wrong. A missing folder is created with
``folder_mode``.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from enum import Enum
from pathlib import Path

from berth.pilot.errors import BerthError, UsageError

BACKLOG = 512
_MAX_PATH = 107
"""The longest socket path in bytes that ``sockaddr_un`` can hold without the final zero."""


class SocketState(Enum):
    """The state of the socket's path: whether it still refers to the daemon's own socket."""

    OURS = "ours"
    MISSING = "missing"
    REPLACED = "replaced"


class Listener:
    """A Unix stream socket listening at ``path``. Raises BerthError where it cannot listen.

    Members of ``group`` may connect too, where this process may change the socket to that group.
    """

    def __init__(
        self, path: Path, *, mode: int = 0o660, folder_mode: int = 0o750, group: int | None = None
    ) -> None:
        self.path = path
        self._mode = mode
        self._group = group
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}")
        if len(os.fsencode(self._temporary)) > _MAX_PATH:
            raise UsageError(
                f"{path}: the path is too long for a Unix socket",
                hint=f"keep it under {_MAX_PATH - len(str(os.getpid())) - 2} bytes",
            )
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(mode=folder_mode, parents=True, exist_ok=True)
                self._give(path.parent)
            self._lock = self._take_lock()
        except OSError as error:
            raise _cannot(path, error) from None
        try:
            self._refuse_to_replace()
            self.socket, self._identity = self._bind()
        except BaseException:
            os.close(self._lock)
            raise

    def fileno(self) -> int:
        """Return the file descriptor for polling."""
        return self.socket.fileno()

    def standing(self) -> SocketState:
        """Return whether the path still refers to this socket."""
        try:
            status = self.path.lstat()
        except OSError:
            return SocketState.MISSING
        same = (status.st_dev, status.st_ino) == self._identity
        return SocketState.OURS if same else SocketState.REPLACED

    def renew(self) -> socket.socket:
        """Listen again at the path after its file was removed; return the old socket, which the
        caller closes.
        """
        old = self.socket
        self.socket, self._identity = self._bind()
        return old

    def close(self) -> None:
        """Stop listening, and remove the socket file if it is still this daemon's."""
        if self.standing() is SocketState.OURS:
            self.path.unlink(missing_ok=True)
        self.socket.close()
        os.close(self._lock)

    def _take_lock(self) -> int:
        handle = os.open(
            self.path.with_name(self.path.name + ".lock"),
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise BerthError(
                f"another berth serve owns {self.path}",
                hint="stop it first, or give this one another socket in the site file",
            ) from None
        return handle

    def _refuse_to_replace(self) -> None:
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(status.st_mode):
            raise BerthError(
                f"{self.path} is there and is not a socket", hint="move it away, it is not Berth's"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(self.path))
            except (ConnectionRefusedError, FileNotFoundError):
                return  # stale: nobody listens
            except OSError:
                pass
        raise BerthError(
            f"something else listens at {self.path}",
            hint="stop it first, or give berth serve another socket in the site file",
        )

    def _give(self, path: Path) -> None:
        """Change a file's group, where this process may: as root or as a member of the group."""
        if self._group is not None and (os.geteuid() == 0 or self._group in os.getgroups()):
            os.chown(path, -1, self._group)

    def _bind(self) -> tuple[socket.socket, tuple[int, int]]:
        listener = socket.socket(
            socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        try:
            self._temporary.unlink(missing_ok=True)
            listener.bind(str(self._temporary))
            self._temporary.chmod(self._mode)
            self._give(self._temporary)
            listener.listen(BACKLOG)
            status = self._temporary.lstat()
            self._temporary.replace(self.path)
        except OSError as error:
            listener.close()
            raise _cannot(self.path, error) from None
        return listener, (status.st_dev, status.st_ino)


def _cannot(path: Path, error: OSError) -> BerthError:
    return BerthError(
        f"{path}: cannot listen there: {error.strerror}",
        hint="check that the folder exists and that this user may write to it",
    )
