"""From records in a call tree to Regions with inclusive totals and a wall-clock time each.

Rules, so that nothing is guessed:

* a total is an inclusive sum of the file's, or the sum of exclusive ones over the region and all
  regions inside it;
* a column that is not a sum (``any#``, ``max#``: RAJAPerf's account of its kernels, top-down
  ratios) is a value of its own region only, so it is read for innermost regions and is missing
  for the regions around them, where Caliper keeps the largest of the inner ones;
* the time is the slowest rank's (``max#inclusive``, or the largest of the ranks' own records),
  else the average rank's, else a total where it is of one process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from berth.pilot.errors import DocumentError
from berth.pilot.importers.columns import Column
from berth.pilot.importers.reading import MAX_DEPTH, MAX_NAMES, MAX_REGIONS, Metric, Region
from berth.pilot.importers.records import Record, Table

RANK_COLUMNS = ("mpi.rank", "rank")
THREAD_COLUMNS = ("omp.thread.id", "thread", "pthread.id")
PLACE_COLUMNS = frozenset(
    ["nid", "line", "profile", "node", "node_id", *RANK_COLUMNS, *THREAD_COLUMNS]
) | frozenset(["aggregate.slot", "timeseries.snapshot", "timeseries.starttime", "Node order"])
"""Columns that say where a row belongs, not what was counted."""

Path = tuple[str, ...]


def regions(
    table: Table, path: object, *, time_factor: float | None, ranks: int | None
) -> tuple[tuple[Region, ...], tuple[str, ...]]:
    """Regions of ``table`` in the order of the file, and warnings.

    ``time_factor``: seconds for one unit of a time whose unit the file does not say (None:
    unknown). ``ranks``: processes of the run (None: the file does not say).
    """
    groups: dict[Path, list[Record]] = defaultdict(list)
    for record in table.records:
        if len(record.path) > MAX_DEPTH:
            raise DocumentError(str(path), f"is nested deeper than {MAX_DEPTH} levels")
        groups[record.path].append(record)
    names = {name for record in table.records for name in record.numbers}
    names = {name for name in names if Column.of(name).base not in PLACE_COLUMNS}
    if len(groups) > MAX_REGIONS or len(names) > MAX_NAMES:
        raise DocumentError(
            str(path),
            f"holds {len(groups)} regions and {len(names)} columns; at most {MAX_REGIONS} regions "
            f"and {MAX_NAMES} columns are read",
            hint="aggregate it with the tool's own commands first",
        )
    maker = _Maker(table, groups, [Column.of(name) for name in sorted(names)], time_factor, ranks)
    found = tuple(maker.region(place) for place in groups if place or len(groups) == 1)
    return found, tuple(maker.warnings)


class _Maker:
    def __init__(
        self,
        table: Table,
        groups: dict[Path, list[Record]],
        columns: list[Column],
        time_factor: float | None,
        ranks: int | None,
    ) -> None:
        self._table, self._groups, self._columns = table, groups, columns
        self._time_factor, self._ranks = time_factor, ranks
        self.warnings: list[str] = []
        self._inner: dict[Path, list[Path]] = defaultdict(list)
        for place in groups:
            for depth in range(len(place)):
                self._inner[place[:depth]].append(place)

    def region(self, place: Path) -> Region:
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

    def _value(self, column: Column, place: Path) -> tuple[float | None, str]:
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

    def _runtime(self, place: Path) -> tuple[float | None, str]:
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

    def _how(self, column: Column, wanted: str) -> str:
        if wanted == "total" and self._ranks is None:
            warning = (
                f"{column.name} is taken as one process's time: the file does not say how many "
                "processes it sums over"
            )
            if warning not in self.warnings:
                self.warnings.append(warning)
        words = {"max": "slowest rank", "rank": "slowest rank", "avg": "average rank"}
        return f"{column.name}, {words.get(wanted, 'one process')}"

    def _time(self, column: Column, place: Path, wanted: str) -> float | None:
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

    def _by_rank(self, column: Column, place: Path) -> dict[float | None, float]:
        """Time by rank (None: rows without one): of the slowest thread where it has threads."""
        places = [place] if column.inclusive else [place, *self._inner[place]]
        sums: dict[tuple[float | None, float | None], float] = defaultdict(float)
        for where in places:
            for record in self._groups.get(where, []):
                if column.name in record.numbers:
                    key = (_first(record, RANK_COLUMNS), _first(record, THREAD_COLUMNS))
                    sums[key] += record.numbers[column.name]
        found: dict[float | None, float] = {}
        for (rank, _), seconds in sums.items():
            found[rank] = max(found.get(rank, 0.0), seconds)
        return found

    def _own(self, column: Column, place: Path) -> list[float]:
        records: Iterable[Record] = self._groups.get(place, [])
        return [r.numbers[column.name] for r in records if column.name in r.numbers]


def _first(record: Record, names: tuple[str, ...]) -> float | None:
    return next((record.numbers[n] for n in names if n in record.numbers), None)
