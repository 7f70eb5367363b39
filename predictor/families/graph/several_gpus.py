"""Copies of a model on several GPUs of a node, one a GPU, that share the work.

``several_gpus.json`` is written by ``python -m lab several-gpus --train``.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import read_json
from berth.predictor.core.bundle import LearntFile
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Interval

FILE = Path(__file__).with_name("several_gpus.json")


class SeveralGpus(LearntFile):
    """What each doubling of the GPUs costs."""

    schema_: str = Field(default="berth.several-gpus/1", alias="schema")
    log_loss: float
    """Of a GPU's rate with each doubling."""
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval of that rate."""
    most: int = Field(ge=2)
    """GPUs that were measured together."""

    def shared(self, seconds: Interval, gpus: int) -> Interval:
        """Seconds of a step on one GPU as seconds from step to step of all together."""
        if gpus == 1:
            return seconds
        mid = seconds.mid / gpus * math.exp(self.log_loss * math.log2(gpus))
        return around(mid, math.hypot(math.log(seconds.high / seconds.mid), self.log_width))


@cache
def shipped() -> SeveralGpus:
    """The file that comes with Berth. Raises DocumentError."""
    return read_json(FILE, SeveralGpus)
