"""Sources of a model graph's time: what one answers, and how far each was off on held-out data.

``source_errors.json`` has the errors by situation, written by ``python -m lab graph-sources
--train``. What is held out together (a device, an architecture, a family of models) is one group,
and groups weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.platform import Platform
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

MEASURED, TRANSFER, NEAREST, OPERATORS, ROOFLINE = (
    "measured models",
    "transfer process",
    "nearest device",
    "operators",
    "roofline",
)
RUNS = (4, 8, 16, 32)
"""Numbers of a site's own runs that errors are known of."""
ERRORS = Path(__file__).with_name("source_errors.json")
LEAST_GROUPS = 9
"""Least groups of a 90 % interval over groups (``core.intervals.group_quantile``)."""
LEAST_COVERAGE = 0.85
COMBINED = "combined"
"""Name of the entries that say how far all sources together were off."""


@dataclass(frozen=True, slots=True)
class Time:
    """The time of one run at the graph's batch, by one source."""

    seconds: Interval
    """Time with the interval that the source itself states."""
    basis: Basis
    source: str
    """Its name, as ``SourceError.source`` has it."""
    note: str | None = None
    detail: str = ""
    """The software that it was measured with, for people."""
    unlike: bool = False
    """Whether models were measured on the platform, but none like this one."""
    guessed: bool = False
    """Whether the model or its batch is outside what errors are known of,"""
    beyond: float = 0.0
    """and the log half width that this adds, where ``seconds`` does not hold it already."""

    models: int = 0
    """Models that a site measured itself on the platform."""

    @property
    def label(self) -> str:
        """Return the source's name with its detail, as people read it."""
        return f"{self.source} ({self.detail})" if self.detail else self.source


Platforms: TypeAlias = Mapping[str, Platform]
Source: TypeAlias = Callable[
    [ModelGraph, Sequence[Roof], Platforms, Numbers | None], Mapping[str, Sequence[Time]]
]


class SourceError(Document):
    """One source in one situation; ``combined``: all of them."""

    source: str
    situation: str
    log_bias: float
    """Correction added to the log of what it predicts: mean over groups of the median log of
    measured over predicted, less what as many groups differ by chance."""
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval after that; of ``measured models`` and ``combined``, a
    factor on their own."""
    groups: int = Field(ge=1)
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Coverage of the interval in groups that neither bias nor width is from; groups weigh the
    same."""

    @property
    def dependable(self) -> bool:
        """Return whether its intervals are known to hold: groups enough, and covered."""
        return self.groups >= LEAST_GROUPS and self.coverage >= LEAST_COVERAGE


class SourceErrors(Document):
    """``source_errors.json``."""

    schema_: str = Field(default="berth.source-errors/1", alias="schema")
    command: str
    created: str
    sources: dict[str, str]
    """Data set -> SHA-256."""
    split: str
    seed: int
    unlike_above: float = Field(gt=0)
    """Difficulty of the learnt process from which on a model counts as of an unseen family: where
    as many held-out rows of unseen models are above as of unseen families are below."""
    errors: tuple[SourceError, ...]

    def of(self, source: str, situation: str) -> SourceError | None:
        """Return the error of a source in a situation; None where it is not known."""
        return next(
            (
                error
                for error in self.errors
                if (error.source, error.situation) == (source, situation)
            ),
            None,
        )


@cache
def shipped_errors() -> SourceErrors:
    """Return the errors that come with Berth. Raises DocumentError."""
    return read_json(ERRORS, SourceErrors)


def corrected(seconds: Interval, error: SourceError) -> Interval:
    """Return a source's time without its bias, in its interval for the situation."""
    width = error.log_width
    if error.source in (MEASURED, COMBINED):
        width *= seconds.log_width
    return around(seconds.mid * math.exp(error.log_bias), width)


def known_device(*, unlike: bool) -> str:
    """Return the situation where other models were measured on the platform; ``unlike``: none of
    them resembles this one."""
    return f"known device, {'unseen family' if unlike else 'unseen model'}"


IMAGES_IN_HALF = "new GPU, image model in half precision"
LANGUAGE_IN_FP32 = "new GPU, language model in fp32"
NEW_CPU = "new CPU"


def with_runs(runs: int, *, gpu: bool) -> str:
    """Return the situation where the site ran so many models: the next smaller number that errors
    are known of."""
    known = max((k for k in RUNS if k <= runs), default=RUNS[0])
    return f"new {'GPU' if gpu else 'CPU'}, {known} runs"
