"""The cost model as JSON: every array with its shape checked when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats, Row, array_of, row_of
from berth.predictor.families.relative.cost_model import CostModel, Costs
from berth.predictor.families.relative.gaussian import Gaussian
from berth.predictor.families.relative.views import TERMS, VIEWS

COST_MODEL_SCHEMA = "berth.relative-law/1"
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


class CostModelFile(Document):
    """``model.json``."""

    schema_: str = Field(default=COST_MODEL_SCHEMA, alias="schema")
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


def cost_model_file(model: CostModel) -> CostModelFile:
    """``model`` as a document."""
    return CostModelFile(
        schema=COST_MODEL_SCHEMA,
        view=model.view.name,
        counters=model.counters,
        fill=row_of(model.fill),
        platforms=model.platforms,
        reference=model.reference,
        terms=model.costs.terms,
        log_cost=_matrix(model.costs.log_cost),
        residual=_gaussian_file(model.residual),
        trend=_gaussian_file(model.trend),
        trend_share=row_of(model.trend_share),
    )


def cost_model_of(file: CostModelFile, path: Path) -> CostModel:
    """The document as a model. Raises DocumentError (naming ``path``) where it does not fit."""
    if file.view not in VIEWS:
        raise DocumentError(path, f"looks at workloads by {file.view!r}, unknown here", key="view")
    view, platforms = VIEWS[file.view], len(file.platforms)
    if absent := sorted(set(view.needs) - set(file.counters)):
        raise DocumentError(path, f"lacks the counter {absent[0]!r}", key="counters")
    if unknown := sorted(set(file.terms) - TERMS):
        raise DocumentError(path, f"has a term {unknown[0]!r}, unknown here", key="terms")
    features = len(file.residual.centre)
    return CostModel(
        view=view,
        counters=file.counters,
        fill=array_of(file.fill, (len(file.counters),), path, "fill"),
        platforms=file.platforms,
        reference=file.reference,
        costs=Costs(
            file.terms, array_of(file.log_cost, (platforms, len(file.terms)), path, "log_cost")
        ),
        residual=_gaussian(file.residual, features, platforms, path),
        trend=_gaussian(file.trend, features, platforms, path),
        trend_share=array_of(file.trend_share, (platforms,), path, "trend_share"),
    )


def _gaussian(file: GaussianFile, features: int, outputs: int, path: Path) -> Gaussian:
    rows, lengths = len(file.points), len(file.lengths)
    if len(file.groups) != rows:
        raise DocumentError(path, f"has {len(file.groups)} groups for {rows} points", key="groups")
    return Gaussian(
        centre=array_of(file.centre, (features,), path, "centre"),
        scale=array_of(file.scale, (features,), path, "scale"),
        points=array_of(file.points, (rows, features), path, "points"),
        groups=file.groups,
        lengths=np.array(file.lengths),
        constant=array_of(file.constant, (outputs,), path, "constant"),
        linear=array_of(file.linear, (features, outputs), path, "linear"),
        near=array_of(file.near, (lengths, rows, outputs), path, "near"),
        own=array_of(file.own, (rows, outputs), path, "own"),
        own_near=array_of(file.own_near, (lengths, rows, outputs), path, "own_near"),
        offset=array_of(file.offset, (outputs,), path, "offset"),
        amplitude=array_of(file.amplitude, (outputs,), path, "amplitude"),
    )


def _gaussian_file(found: Gaussian) -> GaussianFile:
    return GaussianFile(
        centre=row_of(found.centre),
        scale=row_of(found.scale),
        points=_matrix(found.points),
        groups=found.groups,
        lengths=row_of(found.lengths),
        constant=row_of(found.constant),
        linear=_matrix(found.linear),
        near=tuple(_matrix(each) for each in found.near),
        own=_matrix(found.own),
        own_near=tuple(_matrix(each) for each in found.own_near),
        offset=row_of(found.offset),
        amplitude=row_of(found.amplitude),
    )


def _matrix(values: Floats) -> Matrix:
    return tuple(row_of(row) for row in values)
