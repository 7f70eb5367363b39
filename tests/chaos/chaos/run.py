"""A run: submissions at a steady rate, faults one after the other, then peace and the evidence."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from berth_daemon import wait_until

from chaos.faults import Field, Kind, kinds_of
from chaos.history import Call, Decision, Ended, Ending, Fault, Job, Recorder, Setting, read_calls
from chaos.serving import READY_S, now

PAIRED = 0.25
"""How often a second fault happens inside another."""


class Place(Field, Protocol):
    """A scheduler with Berth, and users who submit to it."""

    setting: Setting
    mishaps: list[Fault]
    """What went wrong that was not done on purpose, and is no matter of Berth."""
    calls: Path
    """Where the observer in the scheduler writes."""

    def begin(self, recorder: Recorder, seed: int, rate: float) -> None: ...

    def finish(self) -> None:
        """No further submissions; those on the way end."""
        ...

    def jobs(self) -> Iterable[Job]:
        """Every job that the scheduler has accepted, as far as it was seen."""
        ...

    def ended(self) -> Iterable[Ended]:
        """What the scheduler wrote of jobs as they ended; empty: it forgets none."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to be. ``gap_s``: peace between two faults, from ... to."""

    seconds: float
    seed: int
    rate: float
    faults: tuple[str, ...] = ()
    gap_s: tuple[float, float] = (4.0, 8.0)
    longest_s: float = 60.0
    """No fault lasts longer."""


def run(place: Place, plan: Plan, history: Path, tell: Callable[[str], None]) -> None:
    """All of it; ``history`` is written as it goes on."""
    random = Random(plan.seed)
    with Recorder(history) as recorder:
        recorder.add(place.setting)
        place.serving.start()
        began = time.monotonic()
        place.begin(recorder, plan.seed, plan.rate)
        time.sleep(plan.gap_s[0])
        _wait_for_a_decision(place, "the beginning", 0.0)
        kinds = _drawn(kinds_of(place), plan, random)
        while time.monotonic() - began < plan.seconds:
            for fault in _one(place, next(kinds), kinds_of(place), plan, random):
                recorder.add(fault)
                tell(f"{time.monotonic() - began:7.1f} s  {fault.name}: "
                     f"{fault.ended_s - fault.begun_s:.1f} s, well after "
                     f"{fault.well_s - fault.ended_s:.1f} s")  # fmt: skip
            time.sleep(random.uniform(*plan.gap_s))
        place.finish()
        _gather(place, recorder)


def _drawn(kinds: list[Kind], plan: Plan, random: Random) -> Iterator[Kind]:
    """Each kind once in every round, in an order of the seed's."""
    chosen = [kind for kind in kinds if not plan.faults or kind.name in plan.faults]
    while True:
        random.shuffle(chosen)
        yield from list(chosen)


def _one(
    place: Place, kind: Kind, kinds: list[Kind], plan: Plan, random: Random
) -> Iterator[Fault]:
    """One fault, or two of which one happens inside the other."""
    inside = [other for other in kinds if other.inner and not kind.inner]
    if plan.faults:
        inside = [other for other in inside if other.name in plan.faults]
    pair = [kind]
    if inside and random.random() < PAIRED:
        pair.append(random.choice(inside))
    times: list[dict[str, float]] = [{} for _ in pair]
    try:
        with ExitStack() as stack:
            for one, moments in zip(pair, times, strict=True):
                moments.update(dict.fromkeys(("begun_s", "on_s", "off_s", "ended_s"), now()))
                stack.callback(_note, moments, "ended_s")
                stack.enter_context(one.block(place, random))
                _note(moments, "on_s")
                stack.callback(_note, moments, "off_s")
                time.sleep(min(plan.longest_s, random.uniform(one.shortest_s, one.longest_s)))
        wait_until(place.serving.answers, READY_S, what="the daemon answers")
    except AssertionError as error:
        names = " and ".join(one.name for one in pair)
        place.serving.problems.append(f"after {names}: {error}; {place.serving.tail()}")
    place.serving.settle(place.store)
    _wait_for_a_decision(place, pair[-1].name, max(moments.get("ended_s", 0) for moments in times))
    for one, moments in zip(pair, times, strict=True):
        if moments:
            yield Fault(one.name, well_s=now(), **moments)


def _wait_for_a_decision(place: Place, after: str, since_s: float) -> None:
    begin = place.calls.stat().st_size

    def decided() -> bool:
        with place.calls.open("rb") as stream:
            stream.seek(begin)
            lines = stream.read().decode(errors="replace").splitlines()[1:]
        return any(call.stamp and call.at_s > since_s for call in read_calls(lines))

    try:
        wait_until(decided, READY_S, what="a job is decided")
    except AssertionError as error:
        place.serving.problems.append(f"after {after}: {error}; {place.serving.tail()}")


def _note(moments: dict[str, float], name: str) -> None:
    moments[name] = now()


def _gather(place: Place, recorder: Recorder) -> None:
    """What one daemon left behind the next one brings in; then all the evidence."""
    serving = place.serving
    for _ in range(2):
        serving.end(signal.SIGTERM)
        serving.start()
        serving.settle(place.store)
    recorder.add(*place.jobs())
    serving.end(signal.SIGTERM)
    calls = list(_calls(place.calls))
    recorder.add(*calls, *_decisions(place.store), *place.mishaps, *place.ended())
    left = [
        path.name for path in place.store.parent.iterdir()
        if (".journal." in path.name or path.name.endswith(".spool.jsonl")) and path.stat().st_size
    ]  # fmt: skip
    recorder.add(
        Ending(serving.dropped, serving.unjournalled, tuple(left), tuple(serving.problems))
    )


def _calls(path: Path) -> Iterator[Call]:
    with path.open(errors="replace") as stream:
        yield from read_calls(stream)


def _decisions(store: Path) -> Iterator[Decision]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as reader:
        rows = reader.execute('SELECT id, "user", queue, action, code, edits FROM decisions')
        for row in rows:
            yield Decision(*row[:5], json.loads(row[5]))


def copy_bundle(target: Path) -> Path:
    """A bundle of the site's own, to be corrupted."""
    from berth.predictor.families.program.bundle import DEFAULT_BUNDLE

    shutil.copytree(DEFAULT_BUNDLE, target)
    return target
