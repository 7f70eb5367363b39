"""The law as JSON: every array with its shape checked when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.ceilings import Floats
from berth.predictor.relative.gaussian import Gaussian
from berth.predictor.relative.law import Law, LawModel
from berth.predictor.relative.views import TERMS, VIEWS

LAW_SCHEMA = "berth.relative-law/1"
Row = tuple[float, ...]
Matrix = tuple[Row, ...]


class GaussianFile(Document):
    """A ``Gaussian``."""

    centre: Row
    scale: Row
    points: Matrix = Field(min_length=1)
    groups: tuple[tuple[str, str], ...]
    lengths: tuple[Annotated[float, Field(gt=0)], ...]
    constant: Row
    linear: Matrix
    near: tuple[Matrix, ...]
    own: Matrix
    own_near: tuple[Matrix, ...]
    offset: Row
    amplitude: Row


class LawFile(Document):
    """``model.json``."""

    schema_: str = Field(default=LAW_SCHEMA, alias="schema")
    view: str
    counters: tuple[str, ...] = Field(min_length=1)
    fill: Row
    platforms: tuple[str, ...] = Field(min_length=2)
    reference: str
    terms: tuple[str, ...] = Field(min_length=1)
    log_cost: Matrix
    residual: GaussianFile
    trend: GaussianFile
    trend_share: Row


def law_file(model: LawModel) -> LawFile:
    """``model`` as a document."""
    return LawFile(
        schema=LAW_SCHEMA,
        view=model.view.name,
        counters=model.counters,
        fill=_row(model.fill),
        platforms=model.platforms,
        reference=model.reference,
        terms=model.law.terms,
        log_cost=_matrix(model.law.log_cost),
        residual=_gaussian_file(model.residual),
        trend=_gaussian_file(model.trend),
        trend_share=_row(model.trend_share),
    )


def law_model(file: LawFile, path: Path) -> LawModel:
    """The document as a model. Raises DocumentError (naming ``path``) where it does not fit."""
    if file.view not in VIEWS:
        raise DocumentError(path, f"looks at workloads by {file.view!r}, unknown here", key="view")
    view, platforms = VIEWS[file.view], len(file.platforms)
    if absent := sorted(set(view.needs) - set(file.counters)):
        raise DocumentError(path, f"lacks the counter {absent[0]!r}", key="counters")
    if unknown := sorted(set(file.terms) - TERMS):
        raise DocumentError(path, f"has a term {unknown[0]!r}, unknown here", key="terms")
    features = len(file.residual.centre)
    return LawModel(
        view=view,
        counters=file.counters,
        fill=_array(file.fill, (len(file.counters),), path, "fill"),
        platforms=file.platforms,
        reference=file.reference,
        law=Law(file.terms, _array(file.log_cost, (platforms, len(file.terms)), path, "log_cost")),
        residual=_gaussian(file.residual, features, platforms, path),
        trend=_gaussian(file.trend, features, platforms, path),
        trend_share=_array(file.trend_share, (platforms,), path, "trend_share"),
    )


def _gaussian(file: GaussianFile, features: int, outputs: int, path: Path) -> Gaussian:
    rows, lengths = len(file.points), len(file.lengths)
    if len(file.groups) != rows:
        raise DocumentError(path, f"has {len(file.groups)} groups for {rows} points", key="groups")
    return Gaussian(
        centre=_array(file.centre, (features,), path, "centre"),
        scale=_array(file.scale, (features,), path, "scale"),
        points=_array(file.points, (rows, features), path, "points"),
        groups=file.groups,
        lengths=np.array(file.lengths),
        constant=_array(file.constant, (outputs,), path, "constant"),
        linear=_array(file.linear, (features, outputs), path, "linear"),
        near=_array(file.near, (lengths, rows, outputs), path, "near"),
        own=_array(file.own, (rows, outputs), path, "own"),
        own_near=_array(file.own_near, (lengths, rows, outputs), path, "own_near"),
        offset=_array(file.offset, (outputs,), path, "offset"),
        amplitude=_array(file.amplitude, (outputs,), path, "amplitude"),
    )


def _gaussian_file(found: Gaussian) -> GaussianFile:
    return GaussianFile(
        centre=_row(found.centre),
        scale=_row(found.scale),
        points=_matrix(found.points),
        groups=found.groups,
        lengths=_row(found.lengths),
        constant=_row(found.constant),
        linear=_matrix(found.linear),
        near=tuple(_matrix(each) for each in found.near),
        own=_matrix(found.own),
        own_near=tuple(_matrix(each) for each in found.own_near),
        offset=_row(found.offset),
        amplitude=_row(found.amplitude),
    )


def _array(
    values: Row | Matrix | tuple[Matrix, ...], shape: tuple[int, ...], path: Path, key: str
) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except ValueError:
        raise DocumentError(path, "has rows of different lengths", key=key) from None
    if found.shape != shape:
        raise DocumentError(path, f"has shape {found.shape} where {shape} is needed", key=key)
    return found


def _row(values: Floats) -> Row:
    return tuple(float(v) for v in values)


def _matrix(values: Floats) -> Matrix:
    return tuple(_row(row) for row in values)
