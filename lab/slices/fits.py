"""``fits``: a slice is said to fit where its memory reaches the upper end of the need."""

from __future__ import annotations

from dataclasses import dataclass

from berth.predictor.families.slices.workload import MemoryNeed
from lab.datasets.mig import training_rows

MIB = 2**20
USABLE_MIB = {"1g.5gb": 4864, "2g.10gb": 9984, "3g.20gb": 20096, "4g.20gb": 20096,
              "7g.40gb": 40448}  # fmt: skip
"""What a program can use on MISO's slices (``nvidia-smi mig -lgip`` of an A100 40 GB)."""


@dataclass(frozen=True, slots=True)
class FitsFigures:
    """MISO's slices by what was said and what happened."""

    said_and_ran: int
    said_but_failed: int
    """The dangerous direction."""
    refused_but_ran: int
    refused_and_failed: int


def fits_figures() -> FitsFigures:
    """The need is what the allocator reserved on the whole GPU: nothing is fitted."""
    count = {(said, ran): 0 for said in (True, False) for ran in (True, False)}
    for row in training_rows():
        need = MemoryNeed(reserved_bytes=row.reserved_mib * MIB).interval
        said = need.high <= USABLE_MIB[row.profile] * MIB
        count[said, row.fits] += 1
    return FitsFigures(
        count[True, True], count[True, False], count[False, True], count[False, False]
    )
