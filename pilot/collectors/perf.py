"""Collector of hardware counters by ``perf stat -x,``, which runs as a subprocess.

One run counts all events. If the processor has fewer counters than events, perf multiplexes and
scales the counts; the note of each counter then says so. Virtual machines, containers and hardened
kernels often have no hardware counters; ``probe`` returns the reason. Counters of some virtual
machines are wrong, mostly with multiplexing: a count is 2^47 too high, or 0 for an event that
every program has. ``probe`` detects this with a short program, and perf is then not used.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.catalogue import from_source
from berth.pilot.collectors.base import Collector, Readings, measured
from berth.pilot.derive import missing
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.plausible import impossible
from berth.pilot.profile import Measurement, RunsOn

SOURCE = "perf"
PROBE_TIMEOUT_S = 10.0
TRIVIAL = ("true",)
BUSY = ("sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done")
"""Runs about 50 ms: long enough for perf to multiplex all events several times."""
ROUNDS = 3
TERM = re.compile(r"(?:(\d+)\*)?([A-Za-z][\w-]*)", re.ASCII)
CORES = r"cpu|cpu_core|cpu_atom|armv[89]\w*|apple_\w+"
"""Names of the counters of cores; hybrid processors have one for each of their kinds of core."""
HYBRID = re.compile(rf"({CORES})/([^/=]*)/?([a-zA-Z]*)")
NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
SPREAD = re.compile(r"\d+\.\d+%", re.ASCII)
WHOLE_PERCENT = 99.95
COMMA = re.compile(r",\d+,\d+,\d\d(?:,|$)", re.MULTILINE)
"""Matches a line of ``perf stat -x,`` whose percentage has a decimal comma (``,100,00,``)."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event in perf's output with its count; if ``value`` is None, ``problem`` says why."""

    name: str
    value: float | None
    problem: str | None
    share: float
    """Share of the run during which the event was counted (1: no multiplexing)."""
    unit: str = ""
    """The unit as perf writes it: ``msec``, ``ns``, ``Joules``; empty for counts."""


def parse(text: str) -> list[Event]:
    """Return the events in the output of ``perf stat -x,``; other lines are skipped.

    Fields of a line: value, unit, event, time counted, percentage of the time counted, metric, unit
    of the metric. With repeated runs (``-r``) the spread follows the event.
    """
    events = []
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("#") or len(fields) < 5:
            continue
        # A raw event with terms has commas of its own: cpu/event=0xc7,umask=0x1/.
        while len(fields) > 5 and fields[2].count("/") == 1:
            fields[2:4] = [f"{fields[2]},{fields[3]}"]
        if len(fields) > 5 and SPREAD.fullmatch(fields[3]):
            del fields[3]
        if len(fields) < 5 or not fields[2]:
            continue
        value = fields[0].strip()
        percent = fields[4].strip()
        share = float(percent) / 100 if NUMBER.fullmatch(percent) else 0.0
        name = plain(fields[2])
        if NUMBER.fullmatch(value):
            events.append(Event(name, float(value), None, min(1.0, share), fields[1]))
        elif value.startswith("<") and value.endswith(">"):
            events.append(Event(name, None, value.strip("<>"), share, fields[1]))
    return events


def plain(event: str) -> str:
    """Return the event's name without modifiers.

    ``instructions:u`` gives ``instructions``; ``cpu_core/instructions/u`` gives
    ``cpu_core/instructions``.
    """
    hybrid = HYBRID.fullmatch(event)
    if hybrid:
        return f"{hybrid.group(1)}/{hybrid.group(2)}"
    return re.sub(r":[ukhGHpP]+$", "", event)


def totals(events: list[Event]) -> dict[str, Event]:
    """Return the events by plain name, joined over both core types of a hybrid processor.

    perf scales the count of each core type as if the program had run there all the time, so the
    counts are weighted by the share of the time in which each was counted. Raw event codes differ
    in meaning between the core types, so raw events are taken from the performance cores only.
    """
    by_name: dict[str, dict[str, Event]] = {}
    for event in events:
        kind, slash, name = event.name.partition("/")
        if not slash or re.fullmatch(CORES, kind) is None or "=" in name:
            kind, name = "", event.name.removesuffix("/")
        if kind == "cpu_atom" and re.fullmatch(r"r[0-9a-f]+", name):
            continue
        known = by_name.setdefault(name, {}).get(kind)
        if known is None or known.value is None:
            by_name[name][kind] = replace(event, name=name)
    return {name: _joined(list(of_kinds.values())) for name, of_kinds in by_name.items()}


def _joined(of_kinds: list[Event]) -> Event:
    """Return one event of the counts of both core types; of one count, that count."""
    counted = [event for event in of_kinds if event.value is not None and event.share > 0]
    if len(counted) < 2:
        valued = [event for event in of_kinds if event.value is not None]
        return (counted or valued or of_kinds)[0]
    share = sum(event.share for event in counted)
    value = sum((event.value or 0.0) * event.share for event in counted) / share
    return replace(counted[0], value=value, share=min(1.0, share))


def evaluate(formula: str, events: Mapping[str, Event]) -> Measurement:
    """Return the value of a catalogue formula such as ``"r01c7 + 2*r04c7"`` over ``events``.

    The result is a missing Measurement if an event has no value.
    """
    total, share = 0.0, 1.0
    for weight, name in terms(formula):
        event = events.get(name)
        if event is None or event.value is None:
            problem = event.problem if event is not None else "not reported"
            return missing(SOURCE, f"event {name}: {problem}")
        total += weight * event.value
        share = min(share, event.share)
    note = None
    if share * 100 < WHOLE_PERCENT:
        note = f"multiplexed: counted {share:.0%} of the time and scaled"
    return measured(SOURCE, total, note)


def terms(formula: str) -> list[tuple[int, str]]:
    """Return the (weight, event) pairs of a catalogue formula such as ``"r01c7 + 2*r04c7"``.

    Raises ValueError for other formulas.
    """
    weighted_events = []
    for part in formula.split(" + "):
        match = TERM.fullmatch(part)
        if match is None:
            raise ValueError(f"not a sum of events: {formula!r}")
        weighted_events.append((int(match.group(1) or 1), match.group(2)))
    return weighted_events


def family(cpuinfo: str) -> str | None:
    """Return the catalogue's key for a processor family, such as ``perf:intel``, or None.

    ``cpuinfo``: text of /proc/cpuinfo.
    """
    for mark, name in (
        ("GenuineIntel", "perf:intel"),
        ("AuthenticAMD", "perf:amd"),
        ("CPU implementer", "perf:arm"),
        ("POWER", "perf:power"),
    ):
        if mark in cpuinfo:
            return name
    return None


class PerfCollector(Collector):
    """Runs the program under ``perf stat``, which counts its processes in user mode."""

    name = "perf"
    why_missing = "needs hardware counters: {detail}"

    def __init__(
        self,
        folder: Path,
        cpuinfo: Path = Path("/proc/cpuinfo"),
        sources: Path = Path("/sys/bus/event_source/devices"),
    ) -> None:
        self._output = folder / "perf.csv"
        self._folder = folder
        text = cpuinfo.read_text(errors="replace") if cpuinfo.exists() else ""
        self._formulas = from_source(family(text) or "perf:unknown")
        self._events: list[str] = []
        self._sources = sources

    def probe(self) -> str | None:
        if shutil.which("perf") is None:
            return "perf is not installed"
        if not self._formulas:
            return "no events are known for this processor family"
        # A virtual machine without the processor's counters need not start perf to learn it.
        if self._sources.is_dir() and not any(
            re.fullmatch(CORES, source.name) for source in self._sources.iterdir()
        ):
            return "the kernel has no hardware counters here (virtual machine?)"
        trial = totals(_try_out(["instructions"], TRIVIAL))
        basic = trial.get("instructions")
        if basic is None:
            return "perf cannot count here (is kernel.perf_event_paranoid above 2?)"
        if basic.value is None:
            return f"perf prints <{basic.problem}>: no hardware counters here (virtual machine?)"
        wanted = sorted({name for text in self._formulas.values() for _, name in terms(text)})
        # perf refuses the whole list if it does not know one of its events.
        known = _try_out(wanted, TRIVIAL)
        self._events = wanted if known else [w for w in wanted if _try_out([w], TRIVIAL)]
        return self._wrong()

    def gives(self, counters: Sequence[str]) -> bool:
        """Return whether perf has events for all of these counters on this processor family."""
        return all(name in self._formulas for name in counters)

    def _wrong(self) -> str | None:
        """Run a short program; return why perf's counts on this machine are wrong, or None."""
        for _ in range(ROUNDS):
            begun_s = time.monotonic()
            events = _try_out(self._events, BUSY)
            why = cannot_be(events, time.monotonic() - begun_s)
            if why is not None:
                return f"the counters count wrongly here (virtual machine?): {why}"
        return None

    def prepare(self, order: Order) -> Order:
        self._folder.mkdir(parents=True, exist_ok=True)
        events = ",".join(f"{name}:u" for name in self._events)
        perf = shutil.which("perf") or "perf"
        prefix = (perf, "stat", "-x,", "-o", str(self._output), "-e", events, "--")
        # perf starts the program, so that the kernel's peak memory is at least that of perf.
        seen_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return replace(order, command=(*prefix, *order.command), least_seen_bytes=seen_kib * 1024)

    def finish(self, outcome: ProcessResult) -> Readings:
        if not self._output.exists():
            return Readings(detail="perf wrote no counts", failed=True)
        text = self._output.read_text(errors="replace")
        if COMMA.search(text):
            return Readings(detail="perf wrote decimal commas: run with LC_ALL=C", failed=True)
        parsed = parse(text)
        why = cannot_be(parsed, outcome.cpu_s)
        if why is not None:
            return Readings(detail=f"the counters count wrongly: {why}", failed=True)
        events = totals(parsed)
        counters = {name: evaluate(text, events) for name, text in self._formulas.items()}
        counted = sum(1 for m in counters.values() if m.value is not None)
        return Readings(counters, f"{counted} of {len(counters)} counters", failed=not counted)


def cannot_be(events: list[Event], cpu_s: float) -> str | None:
    """Return why these counts are impossible for a program with ``cpu_s`` seconds of CPU time.

    None where they are possible.
    """
    counts = {
        name: event.value
        for name, event in totals(events).items()
        if event.value is not None and event.share > 0 and not event.unit
    }
    return impossible(counts, RunsOn(), cpu_s)


def _try_out(events: Sequence[str], command: Sequence[str]) -> list[Event]:
    """Return perf's counts of these events for a short program; empty if perf fails."""
    names = ",".join(f"{name}:u" for name in events)
    try:
        done = subprocess.run(
            ["perf", "stat", "-x,", "-e", names, "--", *command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse(done.stderr) if done.returncode == 0 else []
