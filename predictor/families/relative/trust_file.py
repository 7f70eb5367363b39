"""Trust as JSON beside the model: every array with its shape checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats, Row, array_of, row_of
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.relative.neighbours import Neighbours
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Difficulty, Trust

TRUST_SCHEMA = "berth.relative-trust/1"
Share = Annotated[float, Field(ge=0, le=1)]
Above = Annotated[float, Field(gt=0)]
Holed = tuple[float | None, ...]
"""None: not known."""


class RangeFile(Document):
    """A ``RangeCheck`` over logarithms of counters."""

    names: tuple[str, ...] = Field(min_length=1)
    centre: Row
    scale: tuple[Above, ...]
    rows: tuple[Holed, ...] = Field(min_length=1)
    low: Holed
    high: Holed
    threshold: Above


class TrustFile(Document):
    """``trust.json``: a ``Trust`` and the range of the training rows."""

    schema_: str = Field(default=TRUST_SCHEMA, alias="schema")
    platforms: tuple[str, ...] = Field(min_length=2)
    reference: str
    centre: Row
    scale: tuple[Above, ...]
    points: tuple[Row, ...] = Field(min_length=1)
    log_speedup: tuple[Holed, ...]
    weights: tuple[Above, ...]
    platform_scale: tuple[Above, ...]
    signal_centre: Row
    signal_spread: tuple[Above, ...]
    slopes: Row
    residuals: tuple[Holed, ...]
    quantile: Above
    width: Above
    shrinkage: Share
    regret_share: Share
    range: RangeFile


def fit_range(rows: Rows) -> RangeCheck:
    """The range of ``rows``: applications held against each other, over logs of counters."""
    names = [f"log(1 + {name})" for name in rows.counters]
    return RangeCheck.fit(names, log_counters(rows), rows.applications)


def log_counters(rows: Rows) -> Floats:
    """Rows x counters; NaN: missing."""
    return np.asarray(np.log1p(np.maximum(rows.values, 0.0)))


def trust_file(trust: Trust, check: RangeCheck) -> TrustFile:
    """Both as a document."""
    near, hard = trust.neighbours, trust.difficulty
    return TrustFile(
        schema=TRUST_SCHEMA,
        platforms=trust.platforms,
        reference=trust.reference,
        centre=row_of(near.centre),
        scale=row_of(near.scale),
        points=tuple(row_of(point) for point in near.points),
        log_speedup=tuple(_holed(row) for row in near.log_speedup),
        weights=row_of(near.weights),
        platform_scale=row_of(hard.platform),
        signal_centre=row_of(hard.centre),
        signal_spread=row_of(hard.spread),
        slopes=row_of(hard.slopes),
        residuals=tuple(_holed(row) for row in trust.residuals),
        quantile=trust.quantile,
        width=trust.width,
        shrinkage=trust.shrinkage,
        regret_share=trust.regret_share,
        range=RangeFile(
            names=check.names,
            centre=row_of(check.centre),
            scale=row_of(check.scale),
            rows=tuple(_holed(row) for row in check.rows),
            low=_holed(check.low),
            high=_holed(check.high),
            threshold=min(check.threshold, _WIDE),
        ),
    )


_WIDE = 1e9
"""A threshold without other applications is infinite, which JSON has no number for."""


def read_trust(file: TrustFile, path: Path) -> tuple[Trust, RangeCheck]:
    """What the document holds. Raises DocumentError (naming ``path``) where it does not fit."""
    rows, features = len(file.points), len(file.centre)
    platforms, signals = len(file.platforms), len(file.signal_centre)

    def of(values: Sequence[object], shape: tuple[int, ...], key: str) -> Floats:
        return array_of(values, shape, path, key)

    neighbours = Neighbours(
        centre=of(file.centre, (features,), "centre"),
        scale=of(file.scale, (features,), "scale"),
        points=of(file.points, (rows, features), "points"),
        log_speedup=of(file.log_speedup, (rows, platforms), "log_speedup"),
        weights=of(file.weights, (rows,), "weights"),
    )
    difficulty = Difficulty(
        platform=of(file.platform_scale, (platforms,), "platform_scale"),
        centre=of(file.signal_centre, (signals,), "signal_centre"),
        spread=of(file.signal_spread, (signals,), "signal_spread"),
        slopes=of(file.slopes, (signals + 1,), "slopes"),
    )
    trust = Trust(
        platforms=file.platforms,
        reference=file.reference,
        neighbours=neighbours,
        difficulty=difficulty,
        residuals=of(file.residuals, (rows, platforms), "residuals"),
        quantile=file.quantile,
        width=file.width,
        shrinkage=file.shrinkage,
        regret_share=file.regret_share,
    )
    known, names = file.range, len(file.range.names)
    if features != names + 1:
        raise DocumentError(path, f"has {features} features for {names} counters", key="centre")
    check = RangeCheck(
        names=known.names,
        centre=of(known.centre, (names,), "range.centre"),
        scale=of(known.scale, (names,), "range.scale"),
        rows=of(known.rows, (len(known.rows), names), "range.rows"),
        low=np.nan_to_num(of(known.low, (names,), "range.low"), nan=-math.inf),
        high=np.nan_to_num(of(known.high, (names,), "range.high"), nan=math.inf),
        threshold=known.threshold,
    )
    return trust, check


def _holed(values: Floats) -> Holed:
    return tuple(float(v) if math.isfinite(v) else None for v in values)
