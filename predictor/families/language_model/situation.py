"""How similar a language-model service is to the measured ones.

Measurements are summarised in *cells*: one model at one precision on one accelerator with one
framework, with the range of loads measured. A request is inside a cell's range up to a factor
``TOLERANCE``. Each situation has interval widths from a held-out split of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.framework import release
from berth.predictor.families.language_model.physics import Case, nearest
from berth.predictor.families.language_model.residual import signature

TOLERANCE = 1.5
"""Factor by which a load may leave the measured range."""
_LARGER = 4.0
"""Factor by which a model may be larger or smaller than the measured ones."""
LOAD = ("input tokens", "output tokens", "input per output token", "sequences per GPU", "GPUs")
"""What a range of loads is over."""


class Situation(StrEnum):
    """Similarity of a case to the measured cases, most similar first."""

    BLOCK = "block"
    """The model was measured on this accelerator with this framework at this precision, and the
    load is in the measured range."""
    PAIR = "pair"
    """The accelerator and framework were measured together at this precision and load with models
    of this kind and size; this model was measured on other accelerators."""
    MODEL = "model"
    """As ``PAIR``, but this model was measured nowhere."""
    RELATIVE = "relative"
    """The accelerator was never measured, but this model was, with this framework at this precision
    and load on an accelerator of the same software."""
    APART = "apart"
    """Accelerator and framework were measured, but not together, or not at this precision, load,
    kind or size of model."""
    NEW = "new"
    """The accelerator or the framework was never measured, nor this model on a relative."""


class Cell(Document):
    """Measurements of one model at one precision on one accelerator with one framework."""

    accelerator: str
    framework: str
    model: str
    """Signature of the model."""
    bits: float
    kind: str
    parameters: float = Field(gt=0)
    low: tuple[float, ...]
    """Least measured value of each ``LOAD``."""
    high: tuple[float, ...]
    versions: tuple[str, ...] = ()
    """Versions of the framework, where they are published."""


def kind_of(model: LanguageModel) -> str:
    """Return the kind of a model: ``dense``, ``experts``, or ``latent`` attention (MLA)."""
    if model.latent_attention:
        return "latent"
    return "experts" if model.experts > 1 else "dense"


def load_of(case: Case) -> tuple[float, ...]:
    """Return the values of ``LOAD``; sequences that wait for others are not counted."""
    load = case.load
    at_once = load.at_once(case.model, case.device.memory_bytes) * load.data_parallel
    return (
        float(load.input_tokens), float(load.output_tokens),
        load.input_tokens / load.output_tokens, at_once / load.gpus, float(load.gpus),
    )  # fmt: skip


def cells_of(rows: Iterable[tuple[Case, str, str]]) -> tuple[Cell, ...]:
    """Return the cells of measured (case, framework, version) rows, in order of their names."""
    by_key: dict[tuple[str, str, str, float], list[tuple[Case, str]]] = {}
    for case, framework, version in rows:
        key = (
            case.device.sheet.name, framework, signature(case.model), float(case.load.weight_bits)
        )  # fmt: skip
        by_key.setdefault(key, []).append((case, version))
    cells = []
    for (accelerator, framework, model, bits), measured in sorted(by_key.items()):
        loads = list(zip(*(load_of(case) for case, _ in measured), strict=True))
        first = measured[0][0].model
        cells.append(
            Cell(
                accelerator=accelerator, framework=framework, model=model, bits=bits,
                kind=kind_of(first), parameters=first.parameters,
                low=tuple(float(f"{min(values):.4g}") for values in loads),
                high=tuple(float(f"{max(values):.4g}") for values in loads),
                versions=tuple(sorted({version for _, version in measured if version})),
            )
        )  # fmt: skip
    return tuple(cells)


def situation_of(case: Case, framework: str, cells: Sequence[Cell], version: str = "") -> Situation:
    """Return how similar a case is to the measured cells; ``version``: of the framework, empty
    where any of the measured ones will do."""
    name = case.device.sheet.name
    of_framework = [cell for cell in cells if cell.framework == framework]
    model, bits = signature(case.model), float(case.load.weight_bits)
    loads = load_of(case)
    if all(cell.accelerator != name for cell in cells):
        same = [cell for cell in of_framework if (cell.model, cell.bits) == (model, bits)]
        near = nearest(name, tuple(sorted({cell.accelerator for cell in same})))
        on_relative = [cell for cell in same if cell.accelerator == near]
        is_inside = bool(on_relative) and _inside(loads, on_relative)
        return Situation.RELATIVE if is_inside else Situation.NEW
    if not of_framework:
        return Situation.NEW
    if not case.device.whole:
        return Situation.APART
    own = [
        cell
        for cell in of_framework
        if (cell.accelerator, cell.bits) == (name, bits) and (not version or _was(version, cell))
    ]
    if any(cell.model == model and _inside(loads, [cell]) for cell in own):
        return Situation.BLOCK
    alike = [
        cell
        for cell in own
        if cell.kind == kind_of(case.model)
        and abs(math.log(cell.parameters / case.model.parameters)) <= math.log(_LARGER)
    ]
    if not alike or not _inside(loads, alike):
        return Situation.APART
    known = any(cell.model == model for cell in of_framework)
    return Situation.PAIR if known else Situation.MODEL


def _was(version: str, cell: Cell) -> bool:
    """Return whether a version is in the range of a cell's versions."""
    known = sorted(release(each) for each in cell.versions)
    return bool(known) and known[0] <= release(version) <= known[-1]


def _inside(loads: Sequence[float], cells: Sequence[Cell]) -> bool:
    """Return whether the loads are in the range of all cells together, up to ``TOLERANCE``."""
    low = [min(values) for values in zip(*(cell.low for cell in cells), strict=True)]
    high = [max(values) for values in zip(*(cell.high for cell in cells), strict=True)]
    return all(
        least / TOLERANCE <= value <= most * TOLERANCE
        for value, least, most in zip(loads, low, high, strict=True)
    )


def stands_for(case: Case, framework: str, cells: Sequence[Cell]) -> str:
    """Return the name of the accelerator whose measurements apply to a case; empty: none do.

    A measured accelerator stands for itself and its slices. Any other takes its nearest relative
    (same software) among those measured with the same framework, model and precision; failing
    these, with the same framework; then any.
    """
    name = case.device.sheet.name
    if any(cell.accelerator == name for cell in cells):
        return name
    model, bits = signature(case.model), float(case.load.weight_bits)
    of_framework = [cell for cell in cells if cell.framework == framework]
    same = [cell for cell in of_framework if (cell.model, cell.bits) == (model, bits)]
    for known in (same, of_framework, cells):
        names = tuple(sorted({cell.accelerator for cell in known}))
        if near := nearest(name, names):
            return near
    return ""
