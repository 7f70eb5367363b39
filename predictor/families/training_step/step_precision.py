"""Training in a precision that no step was measured in: moved by the ratio of roofs.

Every learnt step is in a device's usual precision: mixed (``amp``) on a GPU, fp32 on a CPU.
``step_precision.json``, written by ``python -m lab training-precision --train``, has how far
others are off.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import read_json
from berth.predictor.core.bundle import LearntFile
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

FILE = Path(__file__).with_name("step_precision.json")
_HALVES = (Numbers.FP16, Numbers.BF16)


class PrecisionWidth(LearntFile):
    """How far steps in another precision are from what their ratio of roofs gives."""

    schema_: str = Field(default="berth.step-precision/1", alias="schema")
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval."""


@cache
def width() -> PrecisionWidth:
    """The file that comes with Berth. Raises DocumentError."""
    return read_json(FILE, PrecisionWidth)


def usual(*, is_gpu: bool) -> Numbers:
    """What steps were measured in; on GPUs fp16 stands for mixed precision."""
    return Numbers.FP16 if is_gpu else Numbers.FP32


def is_usual(numbers: Numbers, *, is_gpu: bool) -> bool:
    """Whether steps in it need no ratio: mixed precision computes in either half."""
    return numbers in _HALVES if is_gpu else numbers is Numbers.FP32


def computes_in(roof: Roof, numbers: Numbers) -> bool:
    """Whether training in it is possible there without conversions that nobody would want."""
    return numbers is Numbers.FP32 or numbers in roof.native
