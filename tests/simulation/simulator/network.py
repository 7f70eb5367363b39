"""Unix sockets of one machine: a daemon's end that never waits, filters' ends that do."""

from __future__ import annotations

import errno
import os
import select
import struct
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError
from berth.plugin.daemon.listener import SocketState
from berth.plugin.host import HostNetwork
from simulator.world import Process, SimEvent, Task

ROOM = 212_992
_CREDENTIALS = struct.pack("3i", 1, 0, 0)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class End:
    """One end of a connection."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.inbox = bytearray()
        self.other: End | None = None
        self.closed = False
        self.broken = False
        """The other end is gone; what it sent before can still be read."""
        self.own = False
        """Both ends are of one process."""
        self.poll: SimPoll | None = None
        self.number = -1
        self.reader: Task | None = None

    def arrived(self) -> None:
        """Tell whoever waits for this end."""
        if self.poll is not None:
            self.poll.ready(self.number)
        if self.reader is not None:
            self.process.world.wake(self.reader)

    def shut(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.poll is not None:
            self.poll.forget(self.number)
        other = self.other
        if other is not None and not other.closed:
            other.broken = True
            other.arrived()

    def put(self, data: bytes) -> int:
        """Bytes to the other end; how many it took."""
        other = self.other
        if self.closed:
            raise _error(errno.EBADF)
        if other is None or other.closed:
            raise BrokenPipeError(errno.EPIPE, "broken")
        count = min(len(data), ROOM - len(other.inbox))
        if count <= 0:
            raise BlockingIOError(errno.EAGAIN, "full")
        other.inbox += data[:count]
        other.arrived()
        return count

    def take(self, count: int) -> bytes:
        """What has come; empty: the other end is closed."""
        if self.closed:
            raise _error(errno.EBADF)
        if not self.inbox:
            if self.broken:
                return b""
            raise BlockingIOError(errno.EAGAIN, "nothing")
        part = bytes(self.inbox[:count])
        del self.inbox[:count]
        if self.other is not None and self.other.poll is not None:
            self.other.poll.ready(self.other.number)
        return part


def connected(one: Process, other: Process) -> tuple[End, End]:
    """Two ends of a new connection."""
    here, there = End(one), End(other)
    here.other, there.other = there, here
    one.at_end.append(here.shut)
    other.at_end.append(there.shut)
    return here, there


class SimPeer:
    """The daemon's end of a connection, as ``socket.socket``."""

    def __init__(self, end: End, number: int) -> None:
        self.end = end
        end.number = number
        self._process = end.process
        self._faults = end.process.world.faults

    def _met(self, point: str) -> str | None:
        if self._process.dead:
            self._process.check()
        kind = self._faults.at(point)
        if kind == "die":
            self._process.die()
        if kind == "slow":
            world = self._process.world
            world.sleep(world.random.choice((0.002, 0.03, 0.2)))
            return None
        return kind

    def fileno(self) -> int:
        return -1 if self.end.closed else self.end.number

    def getsockopt(self, *_: object) -> bytes:
        return _CREDENTIALS

    def recv_into(self, space: bytearray, _count: int, _flags: int) -> int:
        kind = self._met("daemon.recv")
        if kind == "fail":
            raise _error(errno.ECONNRESET)
        longest = len(space)
        if kind == "short":
            longest = self._process.world.random.randint(1, 200)
        part = self.end.take(longest)
        space[: len(part)] = part
        if self.end.inbox or self.end.broken:
            self.end.arrived()
        return len(part)

    def recv(self, count: int) -> bytes:
        return self.end.take(count)

    def send(self, data: bytes, _flags: int = 0) -> int:
        if self.end.poll is None:
            return self.end.put(data)  # the loop's own waker
        kind = self._met("daemon.send")
        if kind == "fail":
            raise _error(errno.EPIPE)
        if kind == "full":
            self._again()
            raise BlockingIOError(errno.EAGAIN, "full")
        if kind == "short":
            sent = self.end.put(data[: self._process.world.random.randrange(1, len(data) + 1)])
            self._again()
            return sent
        sent = self.end.put(data)
        if kind == "dieafter":
            self._process.die()
        return sent

    def _again(self) -> None:
        """There is room again after a while."""
        world, end = self._process.world, self.end

        def later() -> None:
            if end.poll is not None and not end.closed:
                end.poll.ready(end.number)

        world.spawn(self._process, later, world.random.choice((0.0, 0.005, 0.1)))

    def setblocking(self, _flag: bool) -> None:
        pass

    def close(self) -> None:
        self._process.check()
        self.end.shut()


class SimPoll:
    """As ``select.epoll``, level-triggered."""

    def __init__(self, process: Process, machine: Any) -> None:
        self._process, self._machine = process, machine
        self._world = process.world
        self._masks: dict[int, int] = {}
        self._ends: dict[int, Any] = {}
        self._maybe: dict[int, None] = {}
        self._event = SimEvent(process)

    def ready(self, number: int) -> None:
        """It may be ready by now."""
        if number in self._masks:
            self._maybe[number] = None
            self._event.set()

    def forget(self, number: int) -> None:
        self._masks.pop(number, None)
        self._ends.pop(number, None)
        self._maybe.pop(number, None)

    def register(self, fd: Any, mask: int) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        self._ends[number] = self._machine.ends[number]
        self._masks[number] = mask
        self._ends[number].poll = self
        self.ready(number)

    def modify(self, fd: int, mask: int) -> None:
        self._masks[fd] = mask
        self.ready(fd)

    def poll(self, timeout: float | None, most: int) -> list[tuple[int, int]]:
        process = self._process
        process.check()
        kind = self._world.faults.at("daemon.poll")
        if kind == "die":
            process.die()
        if kind == "slow":
            self._world.sleep(self._world.random.choice((0.01, 0.06, 0.5, 2.0)))
        if kind == "spurious":
            return [(n, select.EPOLLIN) for n in list(self._masks)[:4] if not self._ends[n].own]
        found = self._now(most)
        if not found and timeout:
            self._event.clear()
            self._event.wait(timeout)
            found = self._now(most)
        return found

    def _now(self, most: int) -> list[tuple[int, int]]:
        found = []
        for number in list(self._maybe):
            end, mask = self._ends[number], self._masks[number]
            events = 0
            if end.inbox or end.broken:
                events |= select.EPOLLIN
            if end.broken:
                events |= select.EPOLLHUP
            if mask & select.EPOLLOUT:
                events = (events & select.EPOLLHUP) | select.EPOLLOUT
            if not events:
                del self._maybe[number]
            elif len(found) < most:
                found.append((number, events))
                if mask & select.EPOLLOUT:
                    del self._maybe[number]
        self._world.random.shuffle(found)
        return found

    def close(self) -> None:
        self._masks.clear()


class SimNetwork(HostNetwork):
    """As ``berth.plugin.host.HostNetwork``."""

    def __init__(self, process: Process, machine: Any) -> None:
        self._process, self._machine = process, machine

    def poll(self) -> SimPoll:
        return SimPoll(self._process, self._machine)

    def pair(self) -> tuple[SimPeer, SimPeer]:
        here, there = connected(self._process, self._process)
        here.own = there.own = True
        return self._machine.peer(here), self._machine.peer(there)

    def spare(self) -> int:
        return -2

    def give_up(self, descriptor: int) -> None:
        pass


class SimListener:
    """As ``berth.plugin.daemon.listener.Listener``, and its own socket."""

    def __init__(self, process: Process, machine: Any, path: Path) -> None:
        self.path = path
        self._process, self._machine = process, machine
        self._bind()
        process.at_end.append(self._gone)

    def _bind(self) -> None:
        self.socket: Any = self
        self.poll: SimPoll | None = None
        self.inbox: list[End] = []
        self.broken = self.own = False
        self.number = self._machine.number(self)
        self._machine.listening[str(self.path)] = self

    def arrived(self) -> None:
        if self.poll is not None:
            self.poll.ready(self.number)

    def _gone(self) -> None:
        """The process has ended; the file stays, but nobody listens."""
        for end in self.inbox:
            end.shut()
        self.inbox = []

    @property
    def alive(self) -> bool:
        return not self._process.dead

    def fileno(self) -> int:
        return int(self.number)

    def accept(self) -> tuple[SimPeer, object]:
        self._process.check()
        world = self._process.world
        kind = world.faults.at("daemon.accept")
        if kind == "die":
            self._process.die()
        if kind == "slow":
            world.sleep(0.02)
        if kind == "exhausted":
            raise _error(errno.EMFILE)
        if not self.inbox:
            raise BlockingIOError(errno.EAGAIN, "nobody")
        end = self.inbox.pop(0)
        if kind == "aborted":
            end.shut()
            raise _error(errno.ECONNABORTED)
        return self._machine.peer(end), None

    def standing(self) -> SocketState:
        found = self._machine.listening.get(str(self.path))
        if found is None:
            return SocketState.MISSING
        return SocketState.OURS if found is self else SocketState.REPLACED

    def renew(self) -> Any:
        self._process.check()
        world = self._process.world
        if world.random.random() < 0.2 and world.faults.on:
            raise BerthError("cannot listen there", hint="look")
        old = _Old(self.inbox)
        self._bind()
        return old

    def close(self) -> None:
        self._process.check()
        if self._machine.listening.get(str(self.path)) is self:
            del self._machine.listening[str(self.path)]


class _Old:
    """A listening socket that is to be closed."""

    def __init__(self, waiting: list[End]) -> None:
        self._waiting = waiting

    def close(self) -> None:
        for end in self._waiting:
            end.shut()


class Client:
    """A filter's end: connects, sends and waits for what comes, with its faults."""

    def __init__(self, process: Process, machine: Any) -> None:
        self.process, self._machine = process, machine
        self._world = process.world
        self.end: End | None = None

    def connect(self, path: str) -> None:
        self.process.check()
        kind = self._world.faults.at("slurm.connect")
        if kind == "slow":
            self._world.sleep(self._world.random.choice((0.001, 0.03)))
        listener = self._machine.listening.get(path)
        if listener is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if kind == "refused" or not listener.alive:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        if len(listener.inbox) >= 512:
            raise BlockingIOError(errno.EAGAIN, "timeout")
        self.end, there = connected(self.process, listener._process)
        listener.inbox.append(there)
        listener.arrived()

    def send(self, data: bytes) -> int:
        """How many bytes were taken. Raises OSError."""
        self.process.check()
        kind = self._world.faults.at("slurm.send")
        if self.end is None:
            raise _error(errno.ENOTCONN)
        if kind == "closed":
            raise BrokenPipeError(errno.EPIPE, "closed")
        if kind == "short":
            data = data[: self._world.random.randrange(len(data))]
            return self.end.put(data) if data else 0
        return self.end.put(data)

    def wait(self, timeout_s: float) -> bool:
        """Until there is something to take; False: nothing came in time."""
        self.process.check()
        end = self.end
        assert end is not None
        stop_s = self._world.now_s + timeout_s
        while not end.inbox and not end.broken:
            left_s = stop_s - self._world.now_s
            if left_s <= 0:
                return False
            end.reader = self._world.current()
            try:
                self._world.wait(left_s)
            finally:
                end.reader = None
        return True

    def take(self, count: int) -> bytes:
        """What has come; empty: closed. Raises BlockingIOError where nothing has."""
        self.process.check()
        if self.end is None:
            return b""
        return self.end.take(count)

    def close(self) -> None:
        if self.end is not None and not self.process.dead:
            self.end.shut()


def garbled(data: bytes, random: Any) -> bytes:
    """An answer as a broken daemon might give it."""
    which = random.randrange(7)
    if which == 0:
        return b"\x00" * len(data)
    if which == 1:
        return data + data
    if which == 2:
        return b'{"v":2,"action":"edit"}\n'
    if which == 3:
        return b'{"v":1,"action":"edit","edits":{"queue":"gpu","nodes":-1}}\n'
    if which == 4:
        return b'{"v":1,"action":"edit","edits":{"queue":"gpu"}}\n'
    if which == 5:
        return b"[1,2]\n"
    return data[: max(1, len(data) // 2)] + b"\n"
