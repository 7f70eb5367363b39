"""Define the answer of a source of a model graph's time, and its errors on held-out data.

``source_errors.json``, written by ``python -m lab graph-sources --train``, holds the errors by
situation: whether the device and the model resemble measured ones. Rows that are held out together
(of a device, an architecture or a family of models) form one group; all groups have equal
weight.
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
"""Numbers of a site's own runs for which ``source_errors.json`` has errors."""
ERRORS = Path(__file__).with_name("source_errors.json")
LEAST_GROUPS = 9
"""Fewest groups from which a 90 % interval can be calibrated
(``core.intervals.group_quantile``)."""
LEAST_COVERAGE = 0.85
COMBINED = "combined"
"""Name of the entries with the errors of all sources combined."""


@dataclass(frozen=True, slots=True)
class Time:
    """Time of one run of a graph at its batch, as predicted by one source."""

    seconds: Interval
    """Seconds of one run, with the interval that the source itself states."""
    basis: Basis
    source: str
    """Name of the source, as in ``SourceError.source``."""
    note: str | None = None
    detail: str = ""
    """The software or runs that the time was learnt from, as shown to users."""
    unlike: bool = False
    """Whether models were measured on the platform, but none similar to this model."""
    guessed: bool = False
    """Whether the model or its batch is outside the range that the known errors cover."""
    beyond: float = 0.0
    """Half width, in log, that ``guessed`` adds to the interval and ``seconds`` does not yet
    include."""

    models: int = 0
    """Number of models that the site itself measured on the platform."""

    @property
    def label(self) -> str:
        """Return the source's name with its detail in brackets, as shown to users."""
        return f"{self.source} ({self.detail})" if self.detail else self.source


Platforms: TypeAlias = Mapping[str, Platform]
Source: TypeAlias = Callable[
    [ModelGraph, Sequence[Roof], Platforms, Numbers | None], Mapping[str, Sequence[Time]]
]


class SourceError(Document):
    """Held-out error of one source (or of all combined: ``combined``) in one situation."""

    source: str
    situation: str
    log_bias: float
    """Correction to add to the log of the predicted time: the mean over groups of the median of
    log(measured / predicted), reduced by the deviation expected by chance for this number of
    groups."""
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval in log time after the correction; for ``measured models`` and
    ``combined``, a factor on the half width that the prediction itself states."""
    groups: int = Field(ge=1)
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Share of measured times inside the interval, on groups that were not used for ``log_bias``
    and ``log_width``; groups have equal weight."""

    @property
    def dependable(self) -> bool:
        return self.groups >= LEAST_GROUPS and self.coverage >= LEAST_COVERAGE


class SourceErrors(Document):
    """Contents of ``source_errors.json``: held-out errors of all sources by situation."""

    schema_: str = Field(default="berth.source-errors/1", alias="schema")
    command: str
    created: str
    sources: dict[str, str]
    """SHA-256 by data set."""
    split: str
    seed: int
    unlike_above: float = Field(gt=0)
    """Difficulty (``latency.process``) above which a model counts as of an unseen family. The same
    number of held-out rows is misclassified on both sides: unseen models above, unseen families
    below."""
    errors: tuple[SourceError, ...]

    def of(self, source: str, situation: str) -> SourceError | None:
        """Return the held-out error of a source in a situation; None: unknown."""
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
    """Return the shipped ``source_errors.json``. Raises DocumentError."""
    return read_json(ERRORS, SourceErrors)


def corrected(seconds: Interval, error: SourceError) -> Interval:
    """Return a source's time in seconds, bias-corrected, with the 90 % interval of its held-out
    error."""
    width = error.log_width
    if error.source in (MEASURED, COMBINED):
        width *= seconds.log_width
    return around(seconds.mid * math.exp(error.log_bias), width)


def known_device(*, unlike: bool) -> str:
    """Return the situation's name where other models were measured on the platform; ``unlike``:
    none of them resembles the requested model."""
    return f"known device, {'unseen family' if unlike else 'unseen model'}"


IMAGES_IN_HALF = "new GPU, image model in half precision"
LANGUAGE_IN_FP32 = "new GPU, language model in fp32"
NEW_CPU = "new CPU"


def with_runs(runs: int, *, gpu: bool) -> str:
    """Return the situation's name for a platform with ``runs`` own runs of the site, rounded down
    to the next number in ``RUNS`` (at least the smallest)."""
    known = max((k for k in RUNS if k <= runs), default=RUNS[0])
    return f"new {'GPU' if gpu else 'CPU'}, {known} runs"
