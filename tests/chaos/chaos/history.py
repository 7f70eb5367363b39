"""What happened, one JSON object a line: what was asked, seen in the filter, kept, decided."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """Of the run: the filters' settings, and how many filters there are."""

    scheduler: str
    deadline_s: float
    breaker_failures: int
    first_pause_s: float
    longest_pause_s: float
    filters: int = 1


@dataclass(frozen=True, slots=True)
class Submission:
    """What a user asked for, and what the user was told."""

    name: str
    user: str
    queue: str | None
    opted_out: bool
    held: bool
    begun_s: float
    ended_s: float
    status: int | None
    """Of the command; None: it was given up."""
    said: str
    job: str | None
    """The id that it printed."""


@dataclass(frozen=True, slots=True)
class Call:
    """One run of the filter, seen from outside: the job before and after, without its stamp."""

    name: str
    at_s: float
    took_s: float
    code: int
    """0: the filter lets the job go on."""
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    stamp: str | None
    """What the filter wrote; None: nothing."""

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """Fields that the filter changed: before, after."""
        keys = self.before.keys() | self.after.keys()
        pairs = {key: (self.before.get(key), self.after.get(key)) for key in sorted(keys)}
        return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


@dataclass(frozen=True, slots=True)
class Job:
    """The scheduler's own record of an accepted job."""

    id: str
    name: str
    user: str
    queue: str
    stamp: str | None
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A line of the scheduler's own log of ended jobs, for those that it forgot before a look."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A row of Berth's store."""

    id: str
    user: str
    queue: str | None
    action: str
    code: str
    edits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """From its beginning to its end; it surely was going on from ``on_s`` to ``off_s``.

    ``well_s``: when the daemon answered again and had stored what it had answered.
    """

    name: str
    begun_s: float
    on_s: float
    off_s: float
    ended_s: float
    well_s: float


@dataclass(frozen=True, slots=True)
class Ending:
    """After all faults: what the daemon lost count of, and what it left behind."""

    dropped: int
    unjournalled: int
    left: tuple[str, ...]
    problems: tuple[str, ...]
    """What should not have happened to the daemon itself."""


_KINDS = {
    kind.__name__.lower(): kind
    for kind in (Setting, Submission, Call, Job, Ended, Decision, Fault, Ending)
}


@dataclass
class History:
    """Everything of one run."""

    setting: Setting
    ending: Ending
    submissions: list[Submission] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)

    def accepted(self) -> set[tuple[str, str]]:
        """Id and name of every job that the scheduler has or had."""
        return {(one.id, one.name) for one in (*self.jobs, *self.ended)}

    def of_calls(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for call in self.calls:
            found.setdefault(call.name, []).append(call)
        return found

    def under(self, *names: str, after_s: float = 0.0) -> Windows:
        """When faults of these names were going on, and so long afterwards."""
        return Windows([(f.begun_s, f.ended_s + after_s) for f in self.faults if f.name in names])

    def write(self, path: Path) -> None:
        with Recorder(path) as recorder:
            recorder.add(self.setting, self.ending)
            recorder.add(*self.submissions, *self.calls, *self.jobs, *self.decisions)
            recorder.add(*self.faults, *self.ended)


@dataclass(frozen=True)
class Windows:
    """Spans of time."""

    spans: list[tuple[float, float]]

    def hold(self, begun_s: float, ended_s: float | None = None) -> bool:
        """Whether a moment, or any part of a span, is in one of them."""
        last = begun_s if ended_s is None else ended_s
        return any(begin <= last and begun_s <= end for begin, end in self.spans)


class Recorder:
    """Writes a history line by line, from several threads."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("w")
        self._lock = threading.Lock()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def add(self, *items: Any) -> None:
        """Items of the classes above."""
        lines = [
            json.dumps({"kind": type(item).__name__.lower(), **asdict(item)}) for item in items
        ]
        with self._lock:
            self._stream.writelines(line + "\n" for line in lines)


def read(path: Path) -> History:
    found: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    for item in _items(path):
        kind = item.pop("kind")
        found[kind].append(_KINDS[kind](**item))
    return History(
        found["setting"][0],
        found["ending"][0],
        *(found[kind] for kind in ("submission", "call", "job", "decision", "fault", "ended")),
    )


def _items(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as stream:
        for line in stream:
            yield json.loads(line)


def read_calls(lines: Iterable[str]) -> Iterator[Call]:
    """What an observer inside the scheduler wrote; a line that was cut off is none."""
    for line in lines:
        try:
            item = json.loads(line)
        except ValueError:
            continue
        # Lua's cjson writes an empty table as {} and leaves out what is nil.
        yield Call(
            item["name"], item["at_s"], item["took_s"], int(item["code"]),
            item.get("before") or {}, item.get("after") or {}, item.get("stamp"),
        )  # fmt: skip
