"""Rows of counters and of times on platforms: the input of families of relative performance.

A profile becomes one row with its counters in a model's order. The profile's name gives its
application, kernel and size: ``APPLICATION[.KERNEL][-SIZE]``, for example ``lulesh-30`` or
``srad.reduce-4096``. The problem size in the profile takes precedence over the one in the name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class Rows:
    """Workloads (rows) with counters and with times on platforms (columns).

    ``log_seconds`` is NaN where a time is unknown. A family may use every known time: the
    reference's always, and those of platforms where the workload was run too.
    """

    counters: tuple[str, ...]
    values: Floats
    """[rows, counters] raw values; NaN: missing."""
    platforms: tuple[str, ...]
    reference: str
    """The platform on which every row's pilot ran."""
    log_seconds: Floats
    """[rows, platforms] natural log of seconds; NaN: not measured."""
    applications: tuple[str, ...]
    kernels: tuple[str, ...]
    sizes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def reference_column(self) -> int:
        """Return the index of the reference among ``platforms``."""
        return self.platforms.index(self.reference)

    @property
    def log_reference(self) -> Floats:
        """Return [rows] log seconds on the reference."""
        return self.log_seconds[:, self.reference_column]

    @property
    def log_speedup(self) -> Floats:
        """Return [rows, platforms] log of t_reference / t_target; above 0: faster on the target."""
        return np.asarray(self.log_reference[:, None] - self.log_seconds)

    def take(self, index: Sequence[int] | Floats) -> Rows:
        """Return the workloads at ``index`` (row numbers or a boolean mask)."""
        wanted = np.asarray(index)
        chosen = np.flatnonzero(wanted) if wanted.dtype == bool else wanted.astype(np.intp)
        return replace(
            self,
            values=self.values[chosen],
            log_seconds=self.log_seconds[chosen],
            applications=tuple(self.applications[i] for i in chosen),
            kernels=tuple(self.kernels[i] for i in chosen),
            sizes=tuple(self.sizes[i] for i in chosen),
        )

    def knowing(self, platforms: Sequence[str] = ()) -> Rows:
        """Return the rows with times on the reference and on ``platforms`` only; other times are
        NaN.

        Predictions are made from such rows, so that a model cannot see the times to predict.
        """
        known = np.isin(self.platforms, (self.reference, *platforms))
        return replace(self, log_seconds=np.where(known, self.log_seconds, np.nan))

    def with_platforms(self, platforms: Sequence[str]) -> Rows:
        """Return the rows with times on only these platforms, in this order.

        Raises ValueError where the reference is not among them.
        """
        columns = [self.platforms.index(name) for name in platforms]
        if self.reference not in platforms:
            raise ValueError(f"the reference {self.reference} must stay")
        return replace(self, platforms=tuple(platforms), log_seconds=self.log_seconds[:, columns])

    def digest(self) -> str:
        """Return the SHA-256 of all data of the rows, as a key of cached results."""
        names = (self.counters, self.platforms, self.applications, self.kernels, self.sizes)
        head = json.dumps([*names, self.reference]).encode()
        return hashlib.sha256(head + self.values.tobytes() + self.log_seconds.tobytes()).hexdigest()

    def log_counters(self) -> Floats:
        """Return log(1 + counter), [rows, counters]; NaN: missing."""
        return np.asarray(np.log1p(np.maximum(self.values, 0.0)))

    def weights(self) -> Floats:
        """Return [rows] weights with mean 1 under which every application has the same total
        weight."""
        names, inverse, counts = np.unique(
            self.applications, return_inverse=True, return_counts=True
        )
        return np.asarray(len(self) / (len(names) * counts[inverse]))


_SIZE = re.compile(r"(.+)[-@](\d[\w.+]*)")


@dataclass(frozen=True, slots=True)
class Identity:
    """Application, kernel and size of a profile's workload."""

    application: str
    kernel: str
    size: str


def identity(profile: Profile) -> Identity:
    """Return application, kernel and size from the profile's name and problem size.

    A name without a kernel is an application with one kernel of the same name.
    """
    match = _SIZE.fullmatch(profile.name)
    stem, size = (profile.name, "") if match is None else match.groups()
    if profile.workload.size is not None:
        size = f"{profile.workload.size:g}"
    application, _, kernel = stem.partition(".")
    return Identity(application, kernel or application, size)


def values_of(profile: Profile, counters: Iterable[str]) -> dict[str, float]:
    """Return the values by name of those ``counters`` that the profile has."""
    values = {name: profile.value(name) for name in counters}
    return {name: value for name, value in values.items() if value is not None}


def row_of(
    profile: Profile,
    counters: Sequence[str],
    platforms: Sequence[str],
    seconds: Mapping[str, float],
) -> Rows:
    """Return one row for ``profile``, with its own time and the known times in ``seconds`` by
    platform.

    A counter that the profile lacks is NaN. Raises UsageError where the run did not complete, its
    platform is not among ``platforms`` or the profile has none of the counters.
    """
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {profile.platform!r} did not complete")
    if profile.platform not in platforms:
        raise UsageError(
            f"{profile.name!r} was measured on {profile.platform!r}, unknown to the bundle",
            hint=f"it knows {', '.join(platforms)}",
        )
    values = [math.nan if (v := profile.value(name)) is None else v for name in counters]
    if not np.isfinite(values).any():
        raise UsageError(
            f"{profile.name!r} has none of the counters that the bundle was trained on",
            hint=f"they are {', '.join(counters)}",
        )
    known = {**seconds, profile.platform: profile.runtime.median_s}
    named = identity(profile)
    return Rows(
        counters=tuple(counters),
        values=np.array([values]),
        platforms=tuple(platforms),
        reference=profile.platform,
        log_seconds=np.log([[known.get(name, math.nan) for name in platforms]]),
        applications=(named.application,),
        kernels=(named.kernel,),
        sizes=(named.size,),
    )
