"""A machine's files: what ``berth.plugin.host.Files`` asks for, in memory, with every fault."""

from __future__ import annotations

import errno
import io
import os
import re
from pathlib import Path
from typing import BinaryIO

from berth.plugin.host import Files
from simulator.world import Process

_DECISION = re.compile(rb'"decision":"(\w+)"')
_ROLES = (
    (".journal.", "journal"), ("spool", "spool"), ("lock", "lock"), ("off", "switch"),
)  # fmt: skip


class Inode:
    """A file's bytes. ``owner``: the open descriptor that holds its lock."""

    __slots__ = ("data", "owner")

    def __init__(self) -> None:
        self.data = bytearray()
        self.owner: object = None


class Disk:
    """Files by path. ``full``: nothing more can be written."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}
        self.full = False


def role_of(path: Path) -> str:
    """Which of the fault points' names a file belongs to."""
    text = str(path)
    for part, role in _ROLES:
        if part in text:
            return role
    return "journal"  # the folder that journals are looked for in


class _Open:
    __slots__ = ("inode", "path", "role")

    def __init__(self, inode: Inode, path: Path, role: str) -> None:
        self.inode, self.path, self.role = inode, path, role


def _error(number: int, path: object = None) -> OSError:
    return OSError(number, os.strerror(number), str(path) if path is not None else None)


class SimFiles(Files):
    """A process' view of its machine's files."""

    def __init__(self, process: Process, disk: Disk) -> None:
        self._process, self._disk = process, disk
        self._world = process.world
        self._open: dict[int, _Open] = {}
        self._next = 100
        self.unjournalled: set[str] = set()
        """Decisions that could not be written to the journal."""
        process.at_end.append(self._let_go)

    def _let_go(self) -> None:
        for one in self._open.values():
            if one.inode.owner is one:
                one.inode.owner = None
        self._open.clear()

    def _met(self, role: str, call: str) -> str | None:
        """The fault of this call; dies and waits here, fails here."""
        process = self._process
        if process.dead:
            process.check()
        kind = self._world.faults.at(f"{role}.{call}")
        if kind is None:
            return None
        if kind == "die":
            process.die()
        if kind == "slow":
            self._world.sleep(self._world.random.choice((0.001, 0.02, 0.3, 3.0)))
            return None
        if kind == "fail":
            raise _error(self._world.random.choice((errno.EIO, errno.ENOSPC, errno.EACCES)))
        return kind

    def _file(self, descriptor: int) -> _Open:
        self._process.check()
        found = self._open.get(descriptor)
        if found is None:
            raise _error(errno.EBADF)
        return found

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        role = role_of(path)
        self._met(role, "open")
        inode = self._disk.files.get(str(path))
        if inode is None:
            if not flags & os.O_DIRECTORY:
                if not flags & os.O_CREAT:
                    raise _error(errno.ENOENT, path)
                if self._disk.full:
                    raise _error(errno.ENOSPC, path)
            inode = Inode()
            if not flags & os.O_DIRECTORY:
                self._disk.files[str(path)] = inode
        elif flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        self._next += 1
        self._open[self._next] = _Open(inode, path, role)
        return self._next

    def close(self, descriptor: int) -> None:
        one = self._file(descriptor)
        del self._open[descriptor]
        if one.inode.owner is one:
            one.inode.owner = None
        self._met(one.role, "close")

    def write(self, descriptor: int, data: bytes) -> int:
        one = self._file(descriptor) if descriptor in self._open else None
        if one is None:
            self._process.check()
            self._note(data, "journal")
            raise _error(errno.EBADF)
        try:
            kind = self._met(one.role, "write")
            if self._disk.full:
                raise _error(errno.ENOSPC, one.path)
        except OSError:
            self._note(data, one.role)
            raise
        if kind is None:
            one.inode.data += data
            return len(data)
        part = self._world.random.randrange(len(data))
        one.inode.data += data[:part]
        if kind == "torn":
            self._process.die()
        self._note(data, one.role)
        return part

    def _note(self, data: bytes, role: str) -> None:
        if role == "journal":
            self.unjournalled.update(name.decode() for name in _DECISION.findall(data))

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        one = self._file(descriptor)
        self._met(one.role, "pread") if one.role != "lock" else None
        return bytes(one.inode.data[offset : offset + count])

    def size(self, descriptor: int) -> int:
        one = self._file(descriptor)
        self._met(one.role, "size")
        return len(one.inode.data)

    def truncate(self, descriptor: int, size: int) -> None:
        one = self._file(descriptor)
        self._met(one.role, "truncate")
        del one.inode.data[size:]

    def sync(self, descriptor: int) -> None:
        one = self._file(descriptor)
        self._met(one.role, "sync")

    def lock(self, descriptor: int, *, wait: bool = False) -> None:
        one = self._file(descriptor)
        self._met(one.role, "lock")
        if one.inode.owner not in (None, one):
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        one.inode.owner = one

    def leads_to(self, path: Path, descriptor: int) -> bool:
        one = self._file(descriptor)
        self._met(one.role, "leads_to")
        return self._disk.files.get(str(path)) is one.inode

    def reading(self, path: Path) -> BinaryIO:
        self._process.check()
        inode = self._disk.files.get(str(path))
        if inode is None:
            raise _error(errno.ENOENT, path)
        self._met(role_of(path), "reading")
        return io.BytesIO(bytes(inode.data))

    def exists(self, path: Path) -> bool:
        self._met(role_of(path), "exists")
        return str(path) in self._disk.files

    def size_of(self, path: Path) -> int:
        self._met(role_of(path), "size_of")
        inode = self._disk.files.get(str(path))
        if inode is None:
            raise _error(errno.ENOENT, path)
        return len(inode.data)

    def names(self, folder: Path) -> list[str]:
        self._met(role_of(folder), "names")
        before = f"{folder}/"
        found = [p[len(before) :] for p in self._disk.files if p.startswith(before)]
        return [name for name in found if "/" not in name]

    def remove(self, path: Path) -> None:
        kind = self._met(role_of(path), "remove")
        self._disk.files.pop(str(path), None)
        if kind == "dieafter":
            self._process.die()
