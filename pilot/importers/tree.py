"""Convert the records of a call tree (Caliper) to an ImportedRun.

A column's name states its metric and aggregation: ``avg#inclusive#sum#time.duration.ns`` is the
average over ranks of inclusive sums of a time in nanoseconds. Caliper gives some columns
plain names (``time (inc)``). The rules:

* A region's total is the file's inclusive sum, or the sum of exclusive values over the region and
  all regions inside it.
* A column that is not a sum (``any#``, ``max#``: RAJAPerf's statements about its kernels, top-down
  ratios) is valid for its own region only. It is read for innermost regions and missing for
  enclosing regions, where Caliper writes the largest of the inner values.
* A region's time is the slowest rank's (``max#inclusive``, or the largest over the ranks' records),
  else the average rank's, else the total where the run has one process.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.pilot.importers.reading import (
    MAX_DEPTH,
    MAX_NAMES,
    MAX_REGIONS,
    SECONDS,
    CallTree,
    ImportedFile,
    ImportedRun,
    ImportOptions,
    Metric,
    Region,
    TreeRow,
    number,
)
from berth.pilot.profile import Target

PLAIN = {
    "time": "sum#time.duration",
    "time (exc)": "sum#time.duration",
    "Time (E)": "sum#time.duration",
    "time (inc)": "inclusive#sum#time.duration",
    "Time (I)": "inclusive#sum#time.duration",
    "Total time": "sum#inclusive#sum#time.duration",
    "Avg time/rank": "avg#inclusive#sum#time.duration",
    "Min time/rank": "min#inclusive#sum#time.duration",
    "Max time/rank": "max#inclusive#sum#time.duration",
    "time.inclusive.duration": "inclusive#sum#time.duration",
    "time.inclusive.duration.ns": "inclusive#sum#time.duration.ns",
}
OPERATORS = frozenset(
    ["sum", "avg", "min", "max", "any", "inclusive", "scale", "ratio", "first"]
) | {
    "avg.sum",
    "avg.count",
}
PREFIXES = ("papi.", "libpfm.counter.", "pcp.")
INCLUSIVE_SUFFIXES = (":Sum (I)", " (inc)", " (I)")
EXCLUSIVE_SUFFIXES = (":Sum (E)", " (exc)", " (E)")
TIME = "time.duration"


@dataclass(frozen=True, slots=True)
class TreeColumn:
    """A column of a call-tree file, with the metric and the aggregations in its name."""

    name: str
    base: str
    """Name of the metric in the tool that counted it."""
    over: tuple[str, ...]
    """The aggregations, outermost first, except ``inclusive``."""
    inclusive: bool

    @classmethod
    def of(cls, name: str) -> TreeColumn:
        """Return the column that a name such as ``avg#inclusive#sum#time.duration`` describes."""
        words = PLAIN.get(name, name).split("#")
        count = 0
        while count < len(words) - 1 and words[count] in OPERATORS:
            count += 1
        base = "#".join(words[count:])
        inclusive = "inclusive" in words[:count]
        for suffix in INCLUSIVE_SUFFIXES + EXCLUSIVE_SUFFIXES:
            if base.endswith(suffix):
                base, inclusive = base.removesuffix(suffix), suffix in INCLUSIVE_SUFFIXES
        for prefix in PREFIXES:
            base = base.removeprefix(prefix)
        over = tuple(word for word in words[:count] if word not in ("inclusive", "first"))
        return cls(name, base, over, inclusive)

    @property
    def is_time(self) -> bool:
        """Return whether the column holds the region's duration."""
        return self.base in (TIME, f"{TIME}.ns")

    @property
    def adds_up(self) -> bool:
        """Return whether values can be added: the column is a sum or has no aggregation."""
        return all(word == "sum" for word in self.over)

    def seconds(self, unit: str, known: float | None) -> float | None:
        """Return seconds per unit of the column; None where the unit is unknown.

        ``unit`` is the file's, ``known`` the factor that the user states.
        """
        if self.base.endswith(".ns"):
            return 1e-9
        return SECONDS.get(unit.lower(), known)


RANK_COLUMNS = ("mpi.rank", "rank")
THREAD_COLUMNS = ("omp.thread.id", "thread", "pthread.id")
PLACE_COLUMNS = frozenset(
    ["nid", "line", "profile", "node", "node_id", *RANK_COLUMNS, *THREAD_COLUMNS]
) | frozenset(["aggregate.slot", "timeseries.snapshot", "timeseries.starttime", "Node order"])
"""Columns that identify a row (rank, thread, node) and hold no metric."""

RegionPath = tuple[str, ...]


def regions(
    table: CallTree, path: object, *, time_factor: float | None, ranks: int | None
) -> tuple[tuple[Region, ...], tuple[str, ...]]:
    """Return the regions of ``table`` in the order of the file, and warnings.

    ``time_factor``: seconds per unit of times whose unit the file does not state (None: unknown).
    ``ranks``: number of processes of the run (None: unknown).
    """
    groups: dict[RegionPath, list[TreeRow]] = defaultdict(list)
    for record in table.records:
        if len(record.path) > MAX_DEPTH:
            raise DocumentError(str(path), f"is nested deeper than {MAX_DEPTH} levels")
        groups[record.path].append(record)
    names = {name for record in table.records for name in record.numbers}
    names = {name for name in names if TreeColumn.of(name).base not in PLACE_COLUMNS}
    if len(groups) > MAX_REGIONS or len(names) > MAX_NAMES:
        raise DocumentError(
            str(path),
            f"holds {len(groups)} regions and {len(names)} columns; at most {MAX_REGIONS} regions "
            f"and {MAX_NAMES} columns are read",
            hint="aggregate it with the tool's own commands first",
        )
    maker = _RegionMaker(
        table, groups, [TreeColumn.of(name) for name in sorted(names)], time_factor, ranks
    )
    made_regions = tuple(maker.region(place) for place in groups if place or len(groups) == 1)
    return made_regions, tuple(maker.warnings)


class _RegionMaker:
    def __init__(
        self,
        table: CallTree,
        groups: dict[RegionPath, list[TreeRow]],
        columns: list[TreeColumn],
        time_factor: float | None,
        ranks: int | None,
    ) -> None:
        self._table, self._groups, self._columns = table, groups, columns
        self._time_factor, self._ranks = time_factor, ranks
        self.warnings: list[str] = []
        self._inner: dict[RegionPath, list[RegionPath]] = defaultdict(list)
        for place in groups:
            for depth in range(len(place)):
                self._inner[place[:depth]].append(place)

    def region(self, place: RegionPath) -> Region:
        metrics: dict[str, Metric] = {}
        problems: dict[str, str] = {}
        for column in sorted(self._columns, key=lambda c: (not c.inclusive, not c.adds_up)):
            if column.is_time or column.base in metrics:
                continue
            value, problem = self._value(column, place)
            if value is not None:
                metrics[column.base] = Metric(value)
                problems.pop(column.base, None)
            elif problem and column.base not in problems:
                problems[column.base] = problem
        seconds, how = self._runtime(place)
        size = metrics.get("ProblemSize")
        return Region(
            path=place,
            metrics=metrics,
            problems=problems,
            runtime_s=seconds,
            runtime_note=how,
            size=size.value if size and size.value > 0 else None,
        )

    def _value(self, column: TreeColumn, place: RegionPath) -> tuple[float | None, str]:
        own = self._own(column, place)
        if column.adds_up and (column.over or column.inclusive):
            places = [] if column.inclusive else self._inner[place]
            values = own + [v for inner in places for v in self._own(column, inner)]
            return (sum(values), "") if values else (None, "")
        if not own:
            return None, ""
        problem = ""
        if "any" not in column.over and {"avg", "min"} & set(column.over):
            problem = f"{column.name} is no total"
        elif self._inner[place]:
            problem = f"{column.name} of a region around others is not its own"
        elif len(own) > 1 and max(own) != min(own):
            problem = f"{column.name} has {len(own)} different values in this region"
        return (None, problem) if problem else (own[0], "")

    def _runtime(self, place: RegionPath) -> tuple[float | None, str]:
        times = [c for c in self._columns if c.is_time]
        if not times:
            return None, "the file has no time of regions"
        unknown = ""
        for wanted in ("max", "rank", "avg", "total"):
            for column in times:
                factor = column.seconds(self._table.units.get(column.name, ""), self._time_factor)
                value = self._time(column, place, wanted)
                if value is None:
                    continue
                if factor is None:
                    unknown = (
                        f"the file does not say the unit of {column.name!r}; "
                        "tell it with --time-unit"
                    )
                elif value > 0:
                    return value * factor, self._how(column, wanted)
        if unknown:
            return None, unknown
        if self._ranks is not None and self._ranks > 1:
            return None, f"the file has only a total over {self._ranks} ranks, no elapsed time"
        return None, "no time was taken of this region"

    def _how(self, column: TreeColumn, wanted: str) -> str:
        if wanted == "total" and self._ranks is None:
            warning = (
                f"{column.name} is taken as one process's time: the file does not say how many "
                "processes it sums over"
            )
            if warning not in self.warnings:
                self.warnings.append(warning)
        words = {"max": "slowest rank", "rank": "slowest rank", "avg": "average rank"}
        return f"{column.name}, {words.get(wanted, 'one process')}"

    def _time(self, column: TreeColumn, place: RegionPath, wanted: str) -> float | None:
        if wanted in ("max", "avg"):
            if not (column.inclusive and column.over[:1] == (wanted,)):
                return None
            own = self._own(column, place)
            return max(own) if own else None
        if not column.adds_up:
            return None
        ranks = self._by_rank(column, place)
        if not ranks:
            return None
        if wanted == "rank":
            return max(ranks.values()) if None not in ranks else None
        return sum(ranks.values()) if self._ranks in (None, 1) else None

    def _by_rank(self, column: TreeColumn, place: RegionPath) -> dict[float | None, float]:
        """Return the slowest thread's time for each rank; the key None is for rows without rank."""
        places = [place] if column.inclusive else [place, *self._inner[place]]
        sums: dict[tuple[float | None, float | None], float] = defaultdict(float)
        for where in places:
            for record in self._groups.get(where, []):
                if column.name in record.numbers:
                    key = (_first(record, RANK_COLUMNS), _first(record, THREAD_COLUMNS))
                    sums[key] += record.numbers[column.name]
        slowest: dict[float | None, float] = {}
        for (rank, _), seconds in sums.items():
            slowest[rank] = max(slowest.get(rank, 0.0), seconds)
        return slowest

    def _own(self, column: TreeColumn, place: RegionPath) -> list[float]:
        records: Iterable[TreeRow] = self._groups.get(place, [])
        return [r.numbers[column.name] for r in records if column.name in r.numbers]


def _first(record: TreeRow, names: tuple[str, ...]) -> float | None:
    return next((record.numbers[n] for n in names if n in record.numbers), None)


SOURCES = ("papi", "caliper", "rajaperf")
ARCHITECTURES = ("x86_64", "ppc64le", "aarch64")
RANKS = ("mpi.world.size", "jobsize", "numprocs")
VARIANT_TARGETS = {"CUDA": Target.CUDA, "HIP": Target.HIP}


def reading(table: CallTree, path: Path, *, tool: str, time_factor: float | None) -> ImportedRun:
    """Return the ImportedRun (regions and facts of the run) of a CallTree from a call-tree file."""
    facts = table.facts
    ranks = _count(facts, RANKS) or _ranks_seen(table)
    run_regions, warnings = regions(table, path, time_factor=time_factor, ranks=ranks)
    version = facts.get("cali.caliper.version", "")
    return ImportedRun(
        tool=tool,
        sources=SOURCES,
        regions=run_regions,
        version=version,
        measured=_when(facts.get("launchdate", "")),
        command=_command(facts),
        targets=_targets(facts),
        architecture=_architecture(facts),
        threads=_threads(facts),
        ranks=ranks,
        warnings=warnings,
    )


def tree_runs(
    read: Callable[[ImportedFile], list[CallTree]], tool: str
) -> Callable[[ImportedFile, ImportOptions], list[ImportedRun]]:
    """Return ``read``, of a tool's files that hold call trees, as a Reader calls it."""

    def runs(source: ImportedFile, options: ImportOptions) -> list[ImportedRun]:
        found = [
            reading(tree, source.path, tool=tool, time_factor=options.time_factor)
            for tree in read(source)
        ]
        if not any(run.regions for run in found):
            raise DocumentError(source.path, "holds no region")
        return found

    return runs


def _ranks_seen(table: CallTree) -> int | None:
    """Return the number of different ranks in the rows; None where no row has a rank."""
    columns = [c for c in RANK_COLUMNS if any(c in r.numbers for r in table.records)]
    if not columns:
        return None
    return len({r.numbers[columns[0]] for r in table.records if columns[0] in r.numbers})


def _targets(facts: Mapping[str, str]) -> tuple[Target, ...] | None:
    """Return the hardware of a RAJAPerf variant (``Base_CUDA``, ``Base_Seq``); None for others."""
    variant = facts.get("variant")
    if variant is None:
        return None
    return (VARIANT_TARGETS.get(variant.rpartition("_")[2], Target.CPU),)


def _threads(facts: Mapping[str, str]) -> int | None:
    variant = facts.get("variant")
    if variant is not None:
        return _count(facts, ("omp_max_threads",)) if variant.endswith("OpenMP") else 1
    return _count(facts, ("threads", "omp.num.threads"))


def _architecture(facts: Mapping[str, str]) -> str | None:
    system = " ".join(facts.get(key, "") for key in ("systype_build", "sys_type", "arch"))
    return next((name for name in ARCHITECTURES if name in system), None)


def _count(facts: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        count = number(facts.get(name, ""))
        if count is not None and count >= 1 and count == int(count):
            return int(count)
    return None


def _command(facts: Mapping[str, str]) -> tuple[str, ...]:
    text = facts.get("cmdline", "").strip()
    words = text[1:-1].split(",") if text.startswith("[") else text.split()
    return tuple(word for word in words if word)[:10_000]


def _when(text: str) -> str:
    if re.fullmatch(r"\d{9,11}", text):
        return datetime.fromtimestamp(int(text), UTC).isoformat(timespec="seconds")
    return text[:64]
