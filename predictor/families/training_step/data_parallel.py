"""A training step on several GPUs of a node: a copy of the model on each, gradients summed by all.

Each GPU does the step on a batch of its own; then every gradient crosses its link 2 (n - 1) / n
times (a ring's all-reduce: Patarasuk and Yuan, 2009). ``data_parallel.json``, written by
``python -m lab data-parallel --train``, has how much of that is seen, and what else it costs.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import read_json
from berth.predictor.core.bundle import LearntFile
from berth.predictor.core.prediction import Interval

FILE = Path(__file__).with_name("data_parallel.json")
PCIE_MOST = 64e9
"""Bytes a second, one direction: 16 lanes of PCIe 5.0. Faster links are of other kinds."""
GRADIENT_BYTES = 4
"""A parameter: mixed precision keeps weights and their gradients in fp32."""


class DataParallel(LearntFile):
    """A step on n GPUs is (1 + overhead) times one GPU's, and the seen part of the ring's time."""

    schema_: str = Field(default="berth.data-parallel/1", alias="schema")
    overhead: float = Field(ge=0)
    """Share of the step that waiting for the slowest and starting collective operations take."""
    seen: float = Field(ge=0)
    """Seconds seen of a second that the ring takes at the link's rate by the data sheet."""
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval of the ratio over PCIe, for each unit of ``difficulty``."""
    other_link_log_width: float = Field(gt=0)
    """Half width of the 90 % interval of the ratio over any other link."""
    most: int = Field(ge=2)
    """GPUs that were measured together."""

    def log_ratio(self, one_s: float, gpus: int, gradient_bytes: float, link: float) -> float:
        """Return the log of a step's seconds on so many GPUs over its seconds on one.

        ``link``: bytes a second, one direction, of a GPU.
        """
        if gpus == 1:
            return 0.0
        return log_ratio(self.overhead, self.seen, ring(gpus, gradient_bytes, link) / one_s)

    def shared(self, alone: Interval, gpus: int, gradient_bytes: float, link: float) -> Interval:
        """Return the seconds from step to step of all together: n GPUs do n batches in a step."""
        if gpus == 1:
            return alone
        ends = (alone.low, alone.mid, alone.high)
        ratios = [self.log_ratio(seconds, gpus, gradient_bytes, link) for seconds in ends]
        low, mid, high = (
            seconds / gpus * math.exp(ratio) for seconds, ratio in zip(ends, ratios, strict=True)
        )
        own = self.log_width * difficulty(ratios[1])
        if link > PCIE_MOST:
            own = max(own, self.other_link_log_width)
        down, up = (math.hypot(math.log(end / mid), own) for end in (low, high))
        return Interval(mid * math.exp(-down), mid, mid * math.exp(up))


def log_ratio(overhead: float, seen: float, ring_share: float) -> float:
    """Return the log ratio; ``ring_share`` is the ring's time over that of a step on one GPU."""
    return math.log(1 + overhead + seen * ring_share)


def ring(gpus: int, gradient_bytes: float, link: float) -> float:
    """Return seconds of a ring's all-reduce at the link's rate."""
    return 2 * (gpus - 1) / gpus * gradient_bytes / link


def difficulty(log_ratio: float) -> float:
    """Return the factor on intervals: the more a step is lengthened, the less it is known."""
    return 0.1 + log_ratio


@cache
def shipped() -> DataParallel:
    """Return the file that comes with Berth. Raises DocumentError."""
    return read_json(FILE, DataParallel)
