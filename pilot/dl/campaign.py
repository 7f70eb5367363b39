"""Many measurements into one file: append-only JSON lines, one ``berth.model-run/1`` a line.

A line is written whole and to the disk before the next measurement begins, so a kill costs one
measurement; a line that was cut short is dropped when the campaign is started again. What the file
has is not measured again, and neither are larger batches of what ran out of memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.dl.document import ModelFacts, ModelRun, Outcome, Setting, run_key
from berth.pilot.dl.measure import measure
from berth.pilot.dl.order import MeasureOrder
from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.progress import Say, say_nothing

Run = Callable[[MeasureOrder, ModelFacts, str], ModelRun]


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement to make."""

    order: MeasureOrder
    facts: Callable[[], ModelFacts]
    """Read when its turn comes: reading a graph takes time."""
    sha256: str
    name: str

    @property
    def key(self) -> str:
        """As ``ModelRun.key``."""
        return run_key(self.sha256, self.order.setting)


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """What became of the points."""

    measured: int
    known: int
    """In the file already."""
    too_large: int
    """Left out: a smaller batch of the same ran out of memory."""
    unmade: int
    """The time was up."""
    outcomes: dict[str, int]
    """Of what was measured now."""


def run_campaign(
    points: Sequence[Point],
    output: Path,
    platform: str,
    *,
    time_limit_s: float | None = None,
    say: Say = say_nothing,
    run: Run = measure,
) -> CampaignResult:
    """Measure what the file lacks, smallest batches of all models first.

    Raises UsageError where another campaign writes the file, DocumentError where it is not one.
    """
    with _opened(output) as (handle, known):
        began = time.monotonic()
        done = {found.key for found in known}
        limits = _limits(known)
        measured = met = too_large = unmade = 0
        outcomes: dict[str, int] = {}
        ordered = sorted(points, key=lambda point: point.order.setting.batch)
        for number, point in enumerate(ordered):
            setting = point.order.setting
            if point.key in done:
                met += 1
            elif setting.batch >= limits.get(_without_batch(point.sha256, setting), 2**62):
                too_large += 1
            elif time_limit_s is not None and time.monotonic() - began > time_limit_s:
                unmade += 1
            else:
                say(f"{point.name}, batch {setting.batch}, {setting.precision.value}, "
                    f"{setting.task.value}", number, len(ordered))  # fmt: skip
                found = run(point.order, point.facts(), platform)
                _append(handle, found)
                done.add(point.key)
                limits.update(_limits([found]))
                measured += 1
                outcomes[found.outcome.value] = outcomes.get(found.outcome.value, 0) + 1
    return CampaignResult(measured, met, too_large, unmade, outcomes)


def read_runs(path: Path) -> list[ModelRun]:
    """The measurements of a campaign file. Raises DocumentError naming the line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    return _parsed(path, data)


def _parsed(path: Path, data: bytes) -> list[ModelRun]:
    return [
        parse_json(line, ModelRun, source=f"{path}, line {number}")
        for number, line in enumerate(data.splitlines(), 1)
        if line.strip()
    ]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, list[ModelRun]]]:
    """The file, ours alone, without a last line that was cut short."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another campaign is writing {path}", hint="wait for it, or give another --output"
            ) from None
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        known = _parsed(path, whole)
        if len(whole) < len(data):
            os.ftruncate(handle, len(whole))
        yield handle, known
    finally:
        os.close(handle)


def _append(handle: int, found: ModelRun) -> None:
    line = found.model_dump_json(by_alias=True).encode() + b"\n"
    while line:
        line = line[os.write(handle, line) :]
    os.fsync(handle)


def _without_batch(sha256: str, setting: Setting) -> str:
    return run_key(sha256, setting.model_copy(update={"batch": 1}))


def _limits(runs: Sequence[ModelRun]) -> dict[str, int]:
    """By model and setting: the batch that ran out of memory."""
    found: dict[str, int] = {}
    for run in runs:
        if run.outcome is Outcome.OUT_OF_MEMORY:
            key = _without_batch(run.model.sha256, run.setting)
            found[key] = min(run.setting.batch, found.get(key, run.setting.batch))
    return found
