"""Carbon intensity of electricity: a constant, or one value per hour."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

HOUR_S = 3600
J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Intensity:
    """Grams of CO2 equivalent per kilowatt hour, for consecutive hours.

    Times outside ``hourly`` use the mean of its entries at the same hour of day (UTC). Raises
    ValueError where there is no entry or a negative one, and where ``start_s`` is not a full hour.
    """

    hourly: tuple[float, ...]
    """g/kWh of each hour; a single entry is a constant."""
    start_s: int = 0
    """Unix time of the first hour."""

    def __post_init__(self) -> None:
        if not self.hourly or not all(0 <= g < math.inf for g in self.hourly):
            raise ValueError("carbon intensities must be numbers of at least 0")
        if self.start_s % HOUR_S:
            raise ValueError("hours must begin at full hours")

    def __repr__(self) -> str:
        """Return a short text that differs for different hours; decision digests are made from
        it.
        """
        if len(self.hourly) == 1:
            return f"Intensity({self.hourly[0]:g})"
        text = f"{self.start_s} {self.hourly}".encode()
        return f"Intensity({hashlib.blake2b(text, digest_size=8).hexdigest()})"

    def mean(self, start_s: float, seconds: float) -> float:
        """Return the mean g/kWh over ``seconds`` from Unix time ``start_s``, assuming constant
        power.
        """
        if len(self.hourly) == 1:
            return self.hourly[0]
        first = (start_s - self.start_s) / HOUR_S
        last = first + max(seconds, 1e-9) / HOUR_S
        return (self._until(last) - self._until(first)) / (last - first)

    def _until(self, hours: float) -> float:
        """Return the sum of g/kWh from the first hour to ``hours`` later; negative for earlier
        times.
        """
        whole = math.floor(hours)
        known, total = self._sums, len(self.hourly)
        if 0 <= whole < total:
            return known[whole] + (hours - whole) * self.hourly[whole]
        edge = 0 if whole < 0 else total
        return known[edge] + self._daily(edge, hours)

    def _daily(self, edge: int, hours: float) -> float:
        """Return the sum of g/kWh from hour ``edge`` to ``hours``, by the means per hour of day."""
        span = hours - edge
        days, rest = divmod(span, 24.0)
        total = days * sum(self._by_hour)
        full = int(rest)
        first_hour = self.start_s // HOUR_S + edge
        ahead = [self._by_hour[(first_hour + i) % 24] for i in range(full + 1)]
        return total + sum(ahead[:full]) + (rest - full) * ahead[full]

    @cached_property
    def _sums(self) -> Sequence[float]:
        sums = [0.0]
        for grams in self.hourly:
            sums.append(sums[-1] + grams)
        return sums

    @cached_property
    def _by_hour(self) -> Sequence[float]:
        """Return the mean g/kWh per hour of day (UTC); for an hour without entries, the overall
        mean.
        """
        overall = self._sums[-1] / len(self.hourly)
        hours: list[list[float]] = [[] for _ in range(24)]
        for index, grams in enumerate(self.hourly):
            hours[(self.start_s // HOUR_S + index) % 24].append(grams)
        return [sum(known) / len(known) if known else overall for known in hours]
