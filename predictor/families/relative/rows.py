"""Rows of counters and times on some platforms: what families of relative performance see.

A profile becomes one row with its counters in a model's order. Its name says what it is of:
``APPLICATION[.KERNEL][-SIZE]``, say ``lulesh-30`` or ``srad.reduce-4096``. The size of the
workload, where the profile knows it, counts first.
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
    """Workloads (rows) with counters and times on platforms (columns).

    ``log_seconds`` is NaN where a time is not known. A family may read every time that is there:
    the reference's always, those of probes and of few-shot platforms where somebody ran them.
    """

    counters: tuple[str, ...]
    values: Floats
    """Rows x counters, raw; NaN: missing."""
    platforms: tuple[str, ...]
    reference: str
    """The platform that every row was piloted on."""
    log_seconds: Floats
    """Rows x platforms, natural logarithm; NaN: not measured."""
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
        """Return log seconds on the reference, one a row."""
        return self.log_seconds[:, self.reference_column]

    @property
    def log_speedup(self) -> Floats:
        """Return rows x platforms: log of t_reference / t_target; above 0 is faster on the
        target."""
        return np.asarray(self.log_reference[:, None] - self.log_seconds)

    def take(self, index: Sequence[int] | Floats) -> Rows:
        """Return the rows at ``index`` (integers or a mask over rows)."""
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
        """Return the same rows with times on the reference and on ``platforms`` only, others NaN.

        What a family is asked with: it cannot see what it is to predict.
        """
        known = np.isin(self.platforms, (self.reference, *platforms))
        return replace(self, log_seconds=np.where(known, self.log_seconds, np.nan))

    def with_platforms(self, platforms: Sequence[str]) -> Rows:
        """Return the rows with these platforms only, in this order; the reference must be among
        them."""
        columns = [self.platforms.index(name) for name in platforms]
        if self.reference not in platforms:
            raise ValueError(f"the reference {self.reference} must stay")
        return replace(self, platforms=tuple(platforms), log_seconds=self.log_seconds[:, columns])

    def digest(self) -> str:
        """Return the SHA-256 of all of it, so that results cached for one data set are not taken
        for another's."""
        names = (self.counters, self.platforms, self.applications, self.kernels, self.sizes)
        head = json.dumps([*names, self.reference]).encode()
        return hashlib.sha256(head + self.values.tobytes() + self.log_seconds.tobytes()).hexdigest()

    def weights(self) -> Floats:
        """Return one weight a row: every application counts the same in all, the mean is 1."""
        names, inverse, counts = np.unique(
            self.applications, return_inverse=True, return_counts=True
        )
        return np.asarray(len(self) / (len(names) * counts[inverse]))


_SIZE = re.compile(r"(.+)[-@](\d[\w.+]*)")


@dataclass(frozen=True, slots=True)
class Identity:
    """Application, kernel and size that a profile is of."""

    application: str
    kernel: str
    size: str


def identity(profile: Profile) -> Identity:
    """Return it from the profile's name and problem size; a name without parts is its own
    application."""
    match = _SIZE.fullmatch(profile.name)
    stem, size = (profile.name, "") if match is None else match.groups()
    if profile.workload.size is not None:
        size = f"{profile.workload.size:g}"
    application, _, kernel = stem.partition(".")
    return Identity(application, kernel or application, size)


def values_of(profile: Profile, counters: Iterable[str]) -> dict[str, float]:
    """Return those of ``counters`` that the profile has, with their values."""
    values = {name: profile.value(name) for name in counters}
    return {name: value for name, value in values.items() if value is not None}


def row_of(
    profile: Profile,
    counters: Sequence[str],
    platforms: Sequence[str],
    seconds: Mapping[str, float],
) -> Rows:
    """Return one row: ``profile`` on its own platform, and ``seconds`` on those of ``platforms``
    known.

    A counter that the profile lacks is NaN. Raises UsageError where the run did not complete, its
    platform is not among ``platforms`` or none of the counters is there.
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
