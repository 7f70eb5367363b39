"""How similar a language-model service is to the measured ones.

Measurements are summarised in *cells*: one model at one precision on one accelerator with one
framework, with the range of loads measured. What is new in a case against the cells decides which
rule answers and how wide its interval is (``candidates``), by what cases left out showed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.families.language_model.candidates import Novelty
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.framework import release
from berth.predictor.families.language_model.physics import MEAN, LlmCase, nearest
from berth.predictor.families.language_model.residual import signature

TOLERANCE = 1.5
"""Factor by which a load may leave the measured range without a wider interval."""
_LARGER = 4.0
"""Factor by which a model may be larger or smaller than the measured ones."""
SERVERS = ("vllm", "trtllm", "tensorrt-llm", "sglang", "deepspeed-mii")
"""Frameworks that batch requests continuously with paged caches: on one accelerator they reach
similar rates, so that the first that was measured there stands for another of them."""
LOAD = ("input tokens", "output tokens", "input per output token", "sequences per GPU", "GPUs")
"""What a range of loads is over."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """How similar a case is to the measured cases."""

    novelty: Novelty
    """Says what is new: the hardest if several things are."""
    stand_in: str
    """Name of the accelerator whose measurements apply; empty: none do."""
    is_measured: bool
    """Whether the case's device is the stand-in itself, and not another device or a slice."""
    outside: bool = False
    """Whether the load is outside the measured loads by more than a factor ``TOLERANCE``."""
    framework: str = ""
    """Name of the framework that stands for the asked one, which was not measured; empty: the
    asked one was measured, or none stands for it."""
    version_known: bool = False
    """Whether the version is named and measured on the stand-in with this model or its like."""
    alike: bool = True
    """Whether models of this kind and size were measured there at this precision and version."""
    apart: bool = False
    """Whether only other frameworks were measured there, or nothing: an interval is assumed, and
    predictions abstain."""


class MeasuredCase(Document):
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


def load_of(case: LlmCase) -> tuple[float, ...]:
    """Return the values of ``LOAD``; sequences that wait for others are not counted."""
    load = case.load
    at_once = case.at_once * load.data_parallel
    return (
        float(load.input_tokens), float(load.output_tokens),
        load.computed_tokens / load.output_tokens, at_once / load.gpus, float(load.gpus),
    )  # fmt: skip


def cells_of(rows: Iterable[tuple[LlmCase, str, str]]) -> tuple[MeasuredCase, ...]:
    """Return the cells of measured (case, framework, version) rows, in order of their names."""
    by_key: dict[tuple[str, str, str, float], list[tuple[LlmCase, str]]] = {}
    for case, framework, version in rows:
        key = (
            case.device.sheet.name, framework, signature(case.model), case.load.nominal_bits
        )  # fmt: skip
        by_key.setdefault(key, []).append((case, version))
    cells = []
    for (accelerator, framework, model, bits), measured in sorted(by_key.items()):
        loads = list(zip(*(load_of(case) for case, _ in measured), strict=True))
        first = measured[0][0].model
        cells.append(
            MeasuredCase(
                accelerator=accelerator, framework=framework, model=model, bits=bits,
                kind=kind_of(first), parameters=first.parameters,
                low=tuple(float(f"{min(values):.4g}") for values in loads),
                high=tuple(float(f"{max(values):.4g}") for values in loads),
                versions=tuple(sorted({version for _, version in measured if version})),
            )
        )  # fmt: skip
    return tuple(cells)


def similarity_of(
    case: LlmCase, framework: str, cells: Sequence[MeasuredCase], version: str = ""
) -> Similarity:
    """Return how similar a case is to the measured cases; ``version``: of the framework, empty
    where any of the measured versions will do."""
    other = _server_for(case, framework, cells)
    framework, version = (other, "") if other else (framework, version)
    stand_in = stands_for(case, framework, cells)
    model, bits = signature(case.model), case.load.nominal_bits
    of_framework = [cell for cell in cells if cell.framework == framework]
    together = [cell for cell in of_framework if cell.accelerator == stand_in]
    same = [c for c in together if c.bits == bits and (not version or _was(version, c))]
    own = [cell for cell in same if cell.model == model]
    similar = [
        cell
        for cell in same
        if cell.kind == kind_of(case.model)
        and abs(math.log(cell.parameters / case.model.parameters)) <= math.log(_LARGER)
    ]
    known = any(cell.model == model for cell in of_framework)
    near = own or similar or together or of_framework or cells
    is_measured = case.device.whole and case.device.sheet.name == stand_in
    low = [min(values) / TOLERANCE for values in zip(*(cell.low for cell in near), strict=True)]
    high = [max(values) * TOLERANCE for values in zip(*(cell.high for cell in near), strict=True)]
    outside = any(
        not least <= value <= most
        for value, least, most in zip(load_of(case), low, high, strict=True)
    )
    version_known = bool(version) and any(_was(version, cell) for cell in near)
    dense = kind_of(case.model) == "dense"
    novelty = next(
        novelty
        for novelty, is_new in (
            (Novelty.MAKER, not stand_in),
            (Novelty.DEVICE, not is_measured),
            (Novelty.MODEL if dense else Novelty.EXPERTS, not known),
            (Novelty.VERSION, bool(version) and not version_known),
            (Novelty.LOAD, outside),
            (Novelty.KIND, not (own or similar)),
            (Novelty.COMBINATION, not own),
            (Novelty.SERVER, bool(other)),
            (Novelty.NOTHING, True),
        )
        if is_new
    )
    return Similarity(
        novelty, stand_in, is_measured, outside, other, version_known,
        alike=bool(own or similar), apart=not together,
    )  # fmt: skip


def _server_for(case: LlmCase, framework: str, cells: Sequence[MeasuredCase]) -> str:
    """Return the measured server that stands for ``framework``, on the accelerator itself if there
    is one; empty: the framework was measured, or is none of ``SERVERS``."""
    if framework.removesuffix(MEAN) not in SERVERS:
        return ""
    names = {cell.framework for cell in cells}
    if framework in names:
        return ""
    there = {cell.framework for cell in cells if cell.accelerator == case.device.sheet.name}
    spellings = [server + ending for server in SERVERS for ending in ("", MEAN)]
    return next((name for known in (there, names) for name in spellings if name in known), "")


def _was(version: str, cell: MeasuredCase) -> bool:
    """Return whether a version is between the measured ones, as far as it is named: 0.5 may be
    any 0.5.9."""
    asked = release(version)
    known = sorted((*numbers, 0)[:3] for each in cell.versions if (numbers := release(each)))
    if not asked or not known:
        return False
    return known[0][: len(asked)] <= asked <= known[-1][: len(asked)]


def stands_for(case: LlmCase, framework: str, cells: Sequence[MeasuredCase]) -> str:
    """Return the name of the accelerator whose measurements apply to a case; empty: none do.

    An accelerator that was measured with the framework stands for itself and its slices. Any other
    takes its nearest relative (same software) among those measured with the same framework, model
    and precision; failing these, with the same framework and kind of model; then with the same
    framework; then itself or its relative among all.
    """
    name = case.device.sheet.name
    model, bits = signature(case.model), case.load.nominal_bits
    of_framework = [cell for cell in cells if cell.framework == framework]
    choices = (
        (cell for cell in of_framework if cell.accelerator == name),
        (cell for cell in of_framework if (cell.model, cell.bits) == (model, bits)),
        (cell for cell in of_framework if cell.kind == kind_of(case.model)),
        of_framework,
        cells,
    )
    every = (tuple(sorted({cell.accelerator for cell in known})) for known in choices)
    return next((near for names in every if (near := nearest(name, names))), "")
