"""What the name of a Caliper or Hatchet column says: how it was aggregated, and of what.

``avg#inclusive#sum#time.duration.ns`` is an average over ranks of inclusive sums of a time in
nanoseconds. Hatchet and Caliper's own recipes give some of them plain names (``time (inc)``).
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.pilot.importers.reading import SECONDS

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
class Column:
    """A column's name taken apart."""

    name: str
    base: str
    """What was counted, as the counting tool calls it."""
    over: tuple[str, ...]
    """Aggregations, outermost first, without ``inclusive``."""
    inclusive: bool

    @classmethod
    def of(cls, name: str) -> Column:
        """From the column's name."""
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
        """Is it a duration of the region?"""
        return self.base in (TIME, f"{TIME}.ns")

    @property
    def adds_up(self) -> bool:
        """A total: sums of sums, or a value as it was counted."""
        return all(word == "sum" for word in self.over)

    def seconds(self, unit: str, known: float | None) -> float | None:
        """Factor to seconds; None: neither the name, the file nor the user says the unit."""
        if self.base.endswith(".ns"):
            return 1e-9
        return SECONDS.get(unit.lower(), known)
