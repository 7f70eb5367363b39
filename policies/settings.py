"""The site file's tables ``[policy]``, ``[fit]`` and ``[gate]``, which the policies use as read.

A key is one field here; its line in ``docs/site-file.md`` is made from the description.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import AliasChoices, Field

from berth.pilot.documents import Document
from berth.pilot.profile import Name, NonNegative, Positive
from berth.policies.values import Mode

_ROUNDING = 1e-9
"""Slack in log for the rounding of an interval that is exactly as wide as allowed."""


class SliceAim(StrEnum):
    """Which of the suitable MIG slices of a GPU model the objective may choose from."""

    SMALLEST = "smallest"
    """Only the slice that takes the smallest fraction of the GPU."""
    THROUGHPUT = "throughput"
    """Only the slice with the most predicted work per fraction of the GPU that it takes."""
    OBJECTIVE = "objective"
    """All suitable slices: the objective decides."""


class Control(StrEnum):
    """What the jobs get with which changed jobs are compared."""

    NONE = "none"
    WRITTEN = "written"
    LIST = "list"


class Weights(Document):
    """`[policy.weights]`: weights of the objective `balanced`, and `wait`."""

    time: NonNegative = Field(1.0, description="exponent of the time, objective balanced")
    cost: NonNegative = Field(1.0, description="exponent of the cost, objective balanced")
    energy: NonNegative = Field(0.0, description="exponent of the energy, objective balanced")
    wait: NonNegative = Field(
        1.0, description="seconds that one second of expected waiting counts as; 0: ignored"
    )


class FitSettings(Document):
    """`[fit]`: jobs of which no time is predicted well enough get every partition that they fit."""

    mode: Mode = Field(
        Mode.ENFORCE,
        description="such jobs get the list of partitions where they fit as written: `off`; "
        "`shadow` and `advise`: only to that extent; `enforce`: as far as the site's `mode` says",
    )
    unnamed_partition: bool = Field(
        False,
        validation_alias=AliasChoices("unnamed_partition", "unnamed_queue"),
        description="also jobs that name no partition at all, not only those of the auto partition",
    )

    @property
    def on(self) -> bool:
        """Return whether any job is placed by fit alone."""
        return self.mode is not Mode.OFF


Allowance: TypeAlias = Literal[
    "less-time", "preemptible", "lower-priority", "shared-cores", "whole-nodes",
    "hardware-threads", "less-memory",
]  # fmt: skip
"""The codes (``policies/codes.py``) of losses that a site may allow."""


class GateSettings(Document):
    """`[gate]`: what a moved job may lose against the partition where it was submitted."""

    bill_factor: float = Field(
        1.0,
        ge=1,
        le=1_000,
        description="most times that the job may be billed (`TRESBillingWeights`, else CPUs), for "
        "its predicted time where that is known",
    )
    allow: tuple[Allowance, ...] = Field(
        (),
        description="[losses](site-file.md#what-a-move-may-not-cost) that a moved job may have all "
        "the same: `less-time`, `preemptible` (not with `--no-requeue`), `lower-priority`, "
        "`shared-cores`, `whole-nodes`, `hardware-threads`, `less-memory`",
    )
    added_gpus: bool = Field(
        True, description="GPUs for a job that asks for none, where they are predicted to be best"
    )


class PolicyTable(Document):
    """`[policy]`: how a place is chosen for a job."""

    objective: Name = Field(
        "fastest",
        description="[what the chosen place is best at](policies.md#objectives); "
        "[another package](extending.md) may bring one",
    )
    allow_prior: bool = Field(
        False, description="act on predictions for platforms without any calibration data"
    )
    may_raise_time_limit: bool = Field(
        False,
        description="raise a job's time limit (within the partition's) to the upper predicted time",
    )
    time_margin: float = Field(
        1.0, ge=1, le=100, description="upper predicted time x this must fit the time limit"
    )
    max_interval_ratio: float = Field(
        30.0,
        gt=1,
        description="act only where upper / lower end of the comparison with other places is at "
        "most this",
    )
    alike_within: float = Field(
        1.25,
        ge=1,
        le=10,
        description="Slurm: objectives other than time list the places whose score is within this "
        "factor of the best; 1: a job with a prediction gets one partition, whatever the objective",
    )
    stale_after_s: Positive = Field(
        120.0, description="age in seconds from which a candidate's state is not trusted"
    )
    slices: SliceAim = Field(
        SliceAim.SMALLEST,
        description="which [MIG slice](mig-jobs.md) of a GPU model the objective may choose: "
        "`smallest`, `throughput` or `objective`",
    )
    deadline_limits: Positive | None = Field(
        None,
        description="objective `deadline`: a job without a deadline of its own gets one of "
        "so many times its time limit; default: none",
    )
    control: Control = Field(
        Control.NONE,
        repr=False,  # no choice of a place depends on it: it is in no digest
        description="what [control jobs](outcomes.md#what-placements-saved-or-cost) get: `written` "
        "(they stay as written), `list` (the plain list of partitions; needs mode `enforce` of "
        "`[fit]`), or `none`: there are none",
    )
    control_share: float = Field(
        0.05,
        repr=False,
        gt=0,
        lt=1,
        description="share of the jobs that Berth would change which are control jobs instead",
    )
    weights: Weights = Field(default_factory=Weights, description="see `[policy.weights]`")


class PolicySettings(PolicyTable):
    """The policy of a site: the keys of ``[policy]``, the tables beside it, and who asks.

    Not ``strict`` (a person sees the answer before anything happens): a prediction without data for
    the platform, a prediction that abstains, a wide interval and an unknown state become warnings
    instead of exclusions.
    """

    strict: bool = True
    """True: for the submit filter."""
    list_queues: bool = False
    """True: the scheduler accepts several queues for a job and starts the job in the first queue
    with room."""
    fit: FitSettings = FitSettings(mode=Mode.OFF)
    gate: GateSettings = GateSettings()

    def too_wide(self, half_log_width: float) -> bool:
        """Return whether an interval of this half width in natural log is wider than
        ``max_interval_ratio``."""
        return 2 * half_log_width > math.log(self.max_interval_ratio) + _ROUNDING

    @property
    def lists(self) -> bool:
        """Return whether a job may be given several queues."""
        return self.list_queues and self.alike_within > 1
