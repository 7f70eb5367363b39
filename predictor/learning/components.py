"""How far forecasts are off, and what parts of that error programs, devices and sizes share.

Data card of ``SHIPPED``. Data: OpenCL kernels of nine applications on 15 devices (AIWC, MIT).
Residuals: log of measured over predicted time of the shipped cost model, each application left
out of its training, in units of the deviation that it states. Fitted: the shares, by maximum
likelihood of those residuals (``python -m lab site-simulation --train``). Chosen, not fitted: the
effects of platforms and of changes, for which there is no public data. Figures of held-out
applications come from shares fitted without them (docs/learning.md).
"""

from __future__ import annotations

from dataclasses import dataclass

SEVERAL = 5
"""Runs from which on a program's own intervals have a factor of their own."""
PHASES = 3


def phase(runs: int) -> int:
    """0 before the first run of a program, 1 after 1 to 4, 2 after more."""
    return 0 if not runs else 1 if runs < SEVERAL else 2


@dataclass(frozen=True, slots=True)
class Components:
    """Variances: shares of a forecast's own squared error, and standard deviations in log time."""

    program: float
    """Share that all runs of a program have in common."""
    kind: float
    """... and those on one kind of device (CPU, GPU) beside it."""
    family: float
    """... on devices of one vendor or generation."""
    platform: float
    part: float
    """... runs of one part of the program (a kernel, a set of arguments)."""
    part_on_kind: float
    row: float
    """... runs of one part at one size and number of cores or GPUs."""
    row_on_kind: float
    cell: float
    """... of one row on one platform: nothing else tells of it."""
    length: float = 2.0
    """Rows whose log sizes (or log units, or nodes) are so far apart share exp(-1) of it."""
    run_noise: float = 0.08
    """Deviation of log time between two runs of one cell, before the program's runs tell."""
    site_kind: float = 0.15
    """Deviation of what all programs of a site have in common on one kind of device."""
    site_platform: float = 0.15
    """... on one platform; both are scaled up where many programs agree."""
    change: float = 0.7
    """Deviation of log time across a detected change: a factor of two either way."""
    interval: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Factors on the 90 % half width by ``phase``."""

    def factor(self, runs: int) -> float:
        """On the 90 % half width after so many runs of the program."""
        return self.interval[phase(runs)]

    @property
    def total(self) -> float:
        """Sum of the shares: 1 where the forecast's own interval is right for a first run."""
        return (
            self.program + self.kind + self.family + self.platform + self.part
            + self.part_on_kind + self.row + self.row_on_kind + self.cell
        )  # fmt: skip


SHIPPED = Components(
    program=0.050,
    kind=0.062,
    family=0.136,
    platform=0.018,
    part=0.042,
    part_on_kind=0.033,
    row=0.174,
    row_on_kind=0.206,
    cell=0.279,
    length=2.0,
    interval=(1.0, 0.75, 0.75),
)
"""The shares add up to 1: before any job ends, a forecast's interval is its own. Fitted on all nine
applications they add up to 0.82, with factors of 0.96, 0.61 and 0.72: jobs of a site differ more
than kernels do, so that three quarters is what ships, and online levels do the rest."""
