"""Read perf stat's output (``-x,``, ``-j`` or the printed table): one region, the whole program.

The perf collector's parser reads the text form. This module adds units and the elapsed time, and
refuses lines that are not totals of one run (intervals, single cores), and numbers with a decimal
comma: in ``-x,`` they shift the fields.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from berth.pilot.collectors.perf import COMMA, WHOLE_PERCENT, Event, parse, plain, totals
from berth.pilot.importers.reading import (
    MAX_NAMES,
    PROFILE,
    SECONDS,
    ImportedFile,
    ImportedRun,
    ImportOptions,
    Metric,
    Region,
    count_of,
    fault,
    number,
)
from berth.pilot.importers.recogniser import FileKind, FileReader

INTERVAL = re.compile(r"\s*\d+\.\d{9},")
STARTED = re.compile(r"# started on (.+)")
LEAST_SHARE = 0.1
"""Least value of "CPUs utilized" that is used: perf prints three decimals, too few below it."""
HINT = "write it with: LC_ALL=C perf stat -x, -o FILE -e EVENTS,duration_time -- ./app"
LEAST_COUNTED = 0.05
"""Share of the time below which an event's scaled count has a standard error."""
WINDOW = 0.05
"""Standard error over the count of an event that was counted half of the time, by assumption."""
SECOND_RUN, A_FILE = "begins the counts of a second run", "a file a run, so cut this one in two"
LOCALE = "has numbers with a decimal comma, which shifts the fields"


def read_text(source: ImportedFile) -> ImportedRun:
    """Return the events in the output of ``perf stat -x,``.

    Raises DocumentError that names a line which is not a total of one run.
    """
    events: list[Event] = []
    started, utilised = "", None
    for line, text in enumerate(source.text.splitlines(), start=1):
        started = _started(source, line, text, started)
        if not text.strip() or text.startswith("#") or not text.replace(",", " ").split():
            continue
        if INTERVAL.match(text):
            raise fault(source.path, line, "is of one interval (perf stat -I)", HINT)
        if COMMA.search(text):
            raise fault(source.path, line, LOCALE, HINT)
        if len(events) > MAX_NAMES:
            raise fault(source.path, line, f"is beyond {MAX_NAMES} events")
        parsed = parse(text)
        if parsed:
            events += parsed
            utilised = _utilised(parsed[0], text.split(",")[-2:]) or utilised
        elif not text.startswith(",,,"):  # perf prints further metrics of an event on own lines
            raise fault(source.path, line, "is not a line of `perf stat -x,`", HINT)
    return _reading(source, events, started, utilised)


def read_json(source: ImportedFile) -> ImportedRun:
    """Return the events in the output of ``perf stat -j``, one JSON object per line.

    Raises DocumentError that names the faulty line.
    """
    events: list[Event] = []
    started, utilised = "", None
    for line, text in enumerate(source.text.splitlines(), start=1):
        started = _started(source, line, text, started)
        if not text.strip() or text.startswith("#"):
            continue
        if len(events) > MAX_NAMES:
            raise fault(source.path, line, f"is beyond {MAX_NAMES} events")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise fault(source.path, line, "is not JSON", HINT) from None
        if not isinstance(data, dict):
            raise fault(source.path, line, "is not an object of `perf stat -j`", HINT)
        if "interval" in data or "cpu" in data or "core" in data:
            raise fault(source.path, line, "is of one interval or core (perf stat -I, -A)", HINT)
        if "event" not in data:
            continue
        event = _event(data)
        if event is None:
            raise fault(source.path, line, "has no readable counter-value", HINT)
        events.append(event)
        metric = [str(data.get("metric-value", "")), str(data.get("metric-unit", ""))]
        utilised = _utilised(event, metric) or utilised
    return _reading(source, events, started, utilised)


def _started(source: ImportedFile, line: int, text: str, started: str) -> str:
    """Return when the run began: the line's ``# started on``, or else ``started``.

    Raises DocumentError where a second run begins, as ``perf stat --append`` writes it.
    """
    match = STARTED.match(text)
    if match and started:
        raise fault(source.path, line, SECOND_RUN, A_FILE)
    return match.group(1) if match else started


def _event(data: dict[str, Any]) -> Event | None:
    text = str(data.get("counter-value", ""))
    unit = str(data.get("unit", ""))
    share = number(data.get("pcnt-running", 100.0))
    if share is None or not isinstance(data["event"], str):
        return None
    name, share = plain(data["event"]), min(1.0, max(0.0, share / 100))
    if text.startswith("<") and text.endswith(">"):
        return Event(name, None, text.strip("<>"), share, unit)
    value = count_of(text)
    return None if value is None else Event(name, value, None, share, unit)


def _utilised(event: Event, metric: list[str]) -> float | None:
    """Return the elapsed seconds: ``task-clock`` divided by perf's metric "CPUs utilized".

    None where perf printed no such metric or too few digits of it.
    """
    share = number(metric[0]) if metric[1:] == ["CPUs utilized"] else None
    if event.value is None or share is None or share < LEAST_SHARE:
        return None
    return event.value * SECONDS.get(event.unit, 1e-3) / share


PRINTED = "Performance counter stats for "
_COUNT = re.compile(
    r"\s*(?P<value>\d[\d.,\u00a0\u202f']*|<not \w+>)\s+(?:(?P<unit>msec|ns|Joules|MiB|\w?iB)\s+)?"
    r"(?P<event>[A-Za-z][^\s#]*/?)\s*(?:#\s*(?P<metric>.*?))?\s*(?:\(\s*\+-.*?\))?"
    r"\s*(?:\((?P<share>\d+[.,]\d+)%\))?\s*"
)
_TIME = re.compile(
    r"\s*(?P<value>[\d.,]+)\s+(?:\+-\s+\S+\s+)?seconds (?P<kind>time elapsed|user|sys)\b.*"
)
_C_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_TIMES = {"time elapsed": "duration_time", "user": "user_time", "sys": "system_time"}


def read_printed(source: ImportedFile) -> ImportedRun:
    """Return the events in the table that ``perf stat`` prints, amid the program's own output.

    Raises DocumentError that names the faulty line, and for tables of several runs.
    """
    events: list[Event] = []
    command, utilised = "", None
    for line, text in _printed_lines(source):
        if text.lstrip().startswith(PRINTED):
            if command:
                raise fault(source.path, line, SECOND_RUN, A_FILE)
            command = (
                text.lstrip()
                .removeprefix(PRINTED)
                .rstrip()
                .rstrip(":")
                .partition(" (")[0]
                .strip("'")
            )
            continue
        time = _TIME.fullmatch(text)
        if time:
            value = _plain_number(source, line, time["value"], whole=False)
            events.append(Event(_TIMES[time["kind"]], value, None, 1.0, "sec"))
            continue
        count = _COUNT.fullmatch(text)
        if count is None:
            continue  # a further metric of the line above, or the program's output
        name, unit = plain(count["event"]), count["unit"] or ""
        if count["value"].startswith("<"):
            events.append(Event(name, None, count["value"].strip("<>"), 0.0, unit))
            continue
        value = _plain_number(source, line, count["value"], whole=not unit)
        share = _plain_number(source, line, count["share"] or "100", whole=False) / 100
        event = Event(name, value, None, min(1.0, share), unit)
        events.append(event)
        number_of, _, what = (count["metric"] or "").strip().partition(" ")
        utilised = _utilised(event, [number_of, what.strip()]) or utilised
    if events and not any(event.name == _TIMES["time elapsed"] for event in events):
        raise fault(source.path, None, "ends before perf's 'seconds time elapsed'", "is it whole?")
    return _reading(source, events, "", utilised, tuple(_words(command)))


def _printed_lines(source: ImportedFile) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines from perf's heading to the end of its table."""
    inside = False
    for line, text in enumerate(source.text.splitlines(), start=1):
        inside = inside or text.lstrip().startswith(PRINTED)
        if inside and text.strip():
            yield line, text
        kind = _TIME.fullmatch(text)
        inside = inside and not (kind and kind["kind"] == "sys")


def _plain_number(source: ImportedFile, line: int, text: str, *, whole: bool) -> float:
    """Return a number as the C or English locale writes it. Raises DocumentError for others."""
    if _C_NUMBER.fullmatch(text) is None or (whole and "." in text):
        problem = f"{text!r} is written in another locale's way"
        raise fault(source.path, line, problem, HINT)
    return float(text.replace(",", ""))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _reading(
    source: ImportedFile,
    events: list[Event],
    started: str,
    utilised: float | None,
    command: tuple[str, ...] = (),
) -> ImportedRun:
    if not events:
        raise fault(source.path, None, "holds no event of perf", HINT)
    metrics, problems = {}, {}
    for name, event in totals(events).items():
        if event.value is None:
            problems[name] = event.problem or "not counted"
            continue
        note = None
        if event.share * 100 < WHOLE_PERCENT:
            note = f"multiplexed: counted {event.share:.0%} of the time and scaled"
        value = event.value * SECONDS.get(event.unit, 1.0)
        metrics[name] = Metric(value, note, relative_error=_scaling_error(event.share))
    elapsed = metrics.get("duration_time")
    seconds, how = None, "perf -x, writes no elapsed time: count duration_time too"
    if elapsed is not None and elapsed.value > 0:
        seconds, how = elapsed.value, "duration_time"
    elif utilised is not None:
        seconds, how = utilised, "task-clock over CPUs utilized, three digits"
    region = Region((), metrics, problems, seconds or None, how)
    return ImportedRun("perf", ("perf",), (region,), measured=started, command=command)


def _scaling_error(share: float) -> float | None:
    """Return the standard error, over the count, of a count that perf scaled from a share of the
    time; None: the share is large, and the error is in the predictor's own."""
    if share >= LEAST_COUNTED:
        return None
    return WINDOW * math.sqrt((1.0 - share) / max(share, 1e-6))


def _with_family(
    read: Callable[[ImportedFile], ImportedRun],
) -> Callable[[ImportedFile, ImportOptions], list[ImportedRun]]:
    def runs(source: ImportedFile, options: ImportOptions) -> list[ImportedRun]:
        run = read(source)
        if options.processor is not None:
            run = replace(run, sources=(*run.sources, f"perf:{options.processor}"))
        return [run]

    return runs


READERS = (
    FileReader("perf-json", PROFILE, (
        FileKind("perf stat -j", "perf", line=r'\{"(counter-value|event)"\s*:'),
    ), _with_family(read_json)),
    FileReader("perf", PROFILE, (
        FileKind("perf stat -x,", "perf", line=(
            r"(\d+(\.\d+|,\d\d)?|<not (counted|supported)>),[^,\n]{0,12},[A-Za-z_][^,\n]{0,200}"
            r"(,[^,\n]{0,50}=[^/\n]{0,200}/[^,\n]{0,20})?(,\d+[.,]\d\d%)?,\d+,\d+[.,]\d\d"
        )),
    ), _with_family(read_text)),
    FileReader("perf-text", PROFILE, (
        FileKind("perf stat's printed table", "perf", line=" Performance counter stats for "),
    ), _with_family(read_printed)),
)  # fmt: skip
