"""Read LIKWID's CSV (``likwid-perfctr -O`` or ``-o FILE.csv``) of whole runs or marker regions.

The file is a sequence of tables. ``TABLE,Group 1 Raw,NAME,n`` has one line per event and one column
per hardware thread. ``Group 1 Metric`` has the same layout. Each has a ``STAT`` table with sums,
which is not read. With the marker API, tables are named ``TABLE,Region NAME,Group 1 Raw,...`` and
begin with the region's run time. Source: printOutput in LIKWID's ``likwid.lua``.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

from berth.pilot.importers.reading import (
    MAX_REGIONS,
    PROFILE,
    ImportedFile,
    ImportedRun,
    Metric,
    Region,
    count_of,
    fault,
    whole_runs,
)
from berth.pilot.importers.recogniser import FileKind, FileReader

TABLE = re.compile(r"TABLE,(?:Region (?P<region>[^,]*),)?Group (?P<group>\d+) (?P<kind>Raw|Metric)")
STAT = re.compile(r"TABLE,.*(Raw|Metric) STAT")
RUNTIMES = ("Runtime (RDTSC) [s]", "RDTSC Runtime [s]")
ABSENT = frozenset(["-", ""])
"""Values of an event that the hardware thread does not count, because another counts it."""
PLACES = ("HWThread", "Core")
SUMMED_METRICS = ("data volume",)
"""Words in the names of metrics that are totals; all other metrics are rates or ratios."""


@dataclass(slots=True)
class _EventGroup:
    events: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    absent: set[str] = field(default_factory=set)
    metrics: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    runtime_s: float = 0.0
    threads: int = 0
    kinds: set[str] = field(default_factory=set)
    """The kinds of the group's tables that were read: Raw, Metric."""


def read(source: ImportedFile) -> ImportedRun:
    """Return a LIKWID file's marker regions, or without markers the whole program as one Region.

    Raises DocumentError that names the faulty line.
    """
    regions: dict[str, dict[str, _EventGroup]] = {}
    current: _EventGroup | None = None
    raw, columns, cpu = True, 0, ""
    for line, text in enumerate(source.text.splitlines(), start=1):
        fields = [part.strip() for part in text.split(",")]
        if fields[0] == "CPU name:":
            cpu = fields[1] if len(fields) > 1 else ""
        match = TABLE.match(text)
        if STAT.match(text) or fields[0] == "STRUCT":
            current = None
        elif match:
            groups = regions.setdefault(match.group("region") or "", {})
            current = groups.setdefault(match.group("group"), _EventGroup())
            raw, columns = match.group("kind") == "Raw", 0
            if match.group("kind") in current.kinds:
                raise fault(source.path, line, "begins the tables of a second run", "a file a run")
            current.kinds.add(match.group("kind"))
            if len(regions) > MAX_REGIONS:
                raise fault(source.path, line, f"is beyond {MAX_REGIONS} regions")
        elif text.startswith("TABLE,"):
            raise fault(source.path, line, "is a table that this importer does not know")
        elif current is not None and text.strip():
            if fields[0] in ("Event", "Metric", "Region Info"):
                columns = sum(1 for part in fields if part.startswith(PLACES))
                if not columns:
                    raise fault(source.path, line, "names no hardware threads")
                current.threads = max(current.threads, columns)
                continue
            _row(current, fields, raw=raw, columns=columns, where=(source, line))
    if not regions:
        raise fault(
            source.path, None, "holds no table of LIKWID", "write it with: likwid-perfctr -O"
        )
    parsed_regions = tuple(_region(name, groups) for name, groups in regions.items())
    threads = max(g.threads for groups in regions.values() for g in groups.values())
    warnings: tuple[str, ...] = ()
    if threads > 1:
        warnings = (f"counts are sums over {threads} hardware threads",)
    return ImportedRun(
        "likwid",
        ("likwid",),
        parsed_regions,
        host_cpu=cpu,
        threads=threads or None,
        warnings=warnings,
    )


def _row(
    group: _EventGroup,
    fields: list[str],
    *,
    raw: bool,
    columns: int,
    where: tuple[ImportedFile, int],
) -> None:
    source, line = where
    name = fields[0]
    if not columns:
        raise fault(source.path, line, "stands before the table's header (Event or Metric)")
    # Raw tables have the counter's register between the event and the values, region info not.
    skip = 1 if name in RUNTIMES[1:] or name == "call count" or not raw else 2
    texts = fields[skip : skip + columns]
    if len(texts) < columns:
        raise fault(source.path, line, f"has {len(texts)} values for {columns} hardware threads")
    values = []
    for text in texts:
        value = count_of(text)
        if value is None and text not in ABSENT:
            raise fault(source.path, line, f"{name}: {text[:40]!r} is not a number")
        if value is not None:
            values.append(value)
    if name in RUNTIMES:
        group.runtime_s = max([group.runtime_s, *filter(math.isfinite, values)])
    elif name == "call count":
        return
    elif raw and values:
        group.events[name] += sum(values)
    elif raw:
        group.absent.add(name)
    elif any(word in name for word in SUMMED_METRICS):
        group.metrics[name] += sum(values)
    else:
        # Rates and ratios cannot be added up; they are reported to the user as left out.
        group.absent.add(name)


def _region(name: str, groups: dict[str, _EventGroup]) -> Region:
    metrics: dict[str, Metric] = {}
    problems: dict[str, str] = {}
    total = sum(group.runtime_s for group in groups.values())
    everywhere = set.intersection(*(set(g.events) for g in groups.values()))
    for number_, group in groups.items():
        # Several groups in one run take turns: each was counted for only a part of the time.
        note = None
        if len(groups) > 1:
            note = f"group {number_}, {group.runtime_s:.3g} of {total:.3g} s"
        for event, value in (*group.events.items(), *group.metrics.items()):
            if event in everywhere and len(groups) > 1:
                before = metrics[event].value if event in metrics else 0.0
                metrics[event] = Metric(before + value)
            else:
                metrics.setdefault(event, Metric(value, note, complete=note is None))
        problems |= dict.fromkeys(group.absent, "no total")
    how = "slowest hardware thread" if total else "the file has no Runtime (RDTSC)"
    unread = {key: why for key, why in problems.items() if key not in metrics}
    return Region((name,) if name else (), metrics, unread, total or None, how)


READERS = (
    FileReader("likwid", PROFILE, (
        FileKind("likwid-perfctr -O", "likwid",
                 line=r"TABLE,(Region [^,\n]*,)?Group \d+ (Raw|Metric)"),
    ), whole_runs(read)),
)  # fmt: skip
