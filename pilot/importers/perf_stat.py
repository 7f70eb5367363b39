"""Read the output of ``perf stat -x,`` and ``perf stat -j``: one region, the whole program.

The perf collector's parser reads the text form. This module adds units and the elapsed time, and
refuses lines that are not totals of one run (intervals, single cores).
"""

from __future__ import annotations

import json
import re
from typing import Any

from berth.pilot.collectors.perf import WHOLE_PERCENT, Event, parse, plain, totals
from berth.pilot.importers.reading import SECONDS, Metric, Reading, Region, Source, fault, number

INTERVAL = re.compile(r"\s*\d+\.\d{9},")
STARTED = re.compile(r"# started on (.+)")
LEAST_SHARE = 0.1
"""Least value of "CPUs utilized" that is used: perf prints three decimals, too few below it."""
HINT = "write it with: perf stat -x, -o FILE -e EVENTS -- ./app"


def read_text(source: Source) -> Reading:
    """Return the events in the output of ``perf stat -x,``.

    Raises DocumentError that names a line which is not a total of one run.
    """
    events: list[Event] = []
    started, utilised = "", None
    for line, text in enumerate(source.text.splitlines(), start=1):
        match = STARTED.match(text)
        started = match.group(1) if match else started
        if not text.strip() or text.startswith("#") or not text.replace(",", " ").split():
            continue
        if INTERVAL.match(text):
            raise fault(source.path, line, "is of one interval (perf stat -I)", HINT)
        parsed = parse(text)
        if parsed:
            events += parsed
            utilised = _utilised(parsed[0], text.split(",")[-2:]) or utilised
        elif not text.startswith(",,,"):  # perf prints further metrics of an event on own lines
            raise fault(source.path, line, "is not a line of `perf stat -x,`", HINT)
    return _reading(source, events, started, utilised)


def read_json(source: Source) -> Reading:
    """Return the events in the output of ``perf stat -j``, one JSON object per line.

    Raises DocumentError that names the faulty line.
    """
    events: list[Event] = []
    started, utilised = "", None
    for line, text in enumerate(source.text.splitlines(), start=1):
        match = STARTED.match(text)
        started = match.group(1) if match else started
        if not text.strip() or text.startswith("#"):
            continue
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


def _event(data: dict[str, Any]) -> Event | None:
    text = str(data.get("counter-value", ""))
    unit = str(data.get("unit", ""))
    share = number(data.get("pcnt-running", 100.0))
    if share is None or not isinstance(data["event"], str):
        return None
    name, share = plain(data["event"]), min(1.0, max(0.0, share / 100))
    if text.startswith("<") and text.endswith(">"):
        return Event(name, None, text.strip("<>"), share, unit)
    value = number(text)
    return None if value is None or value < 0 else Event(name, value, None, share, unit)


def _utilised(event: Event, metric: list[str]) -> float | None:
    """Return the elapsed seconds: ``task-clock`` divided by perf's metric "CPUs utilized".

    None where perf printed no such metric or too few digits of it.
    """
    share = number(metric[0]) if metric[1:] == ["CPUs utilized"] else None
    if event.value is None or share is None or share < LEAST_SHARE:
        return None
    return event.value * SECONDS.get(event.unit, 1e-3) / share


def _reading(source: Source, events: list[Event], started: str, utilised: float | None) -> Reading:
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
        metrics[name] = Metric(event.value * SECONDS.get(event.unit, 1.0), note)
    elapsed = metrics.get("duration_time")
    seconds, how = None, "perf -x, writes no elapsed time: count duration_time too"
    if elapsed is not None and elapsed.value > 0:
        seconds, how = elapsed.value, "duration_time"
    elif utilised is not None:
        seconds, how = utilised, "task-clock over CPUs utilized, three digits"
    region = Region((), metrics, problems, seconds or None, how)
    return Reading("perf", ("perf",), (region,), measured=started)
