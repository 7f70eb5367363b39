"""The stable code of every reason that Berth gives; ``docs/reasons.md`` explains each code.

Sites use the codes in scripts (``berth jobs decisions --code``), so a code is never reused for
another meaning.
"""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Why a job was placed or left alone, or why a candidate was ruled out."""

    PLACED = "placed"
    CONTROL = "control"
    FITS = "fits"
    FITS_ONE = "fits-one"

    # The whole request is left alone.
    OFF = "off"
    KILL_SWITCH = "kill-switch"
    OWN_QUEUE = "own-queue"
    MEMORY_FIT = "memory-fit"
    BAD_REQUEST = "bad-request"
    BAD_MODE = "bad-mode"
    BAD_WORKLOAD_NAME = "bad-workload-name"
    BAD_DEADLINE = "bad-deadline"
    INTERACTIVE_SHAPE = "interactive-shape"
    NO_FORECAST = "no-forecast"
    OPTED_OUT = "opted-out"
    UNTYPED_GPU = "untyped-gpu"
    NOT_COVERED_USER = "not-covered-user"
    NOT_COVERED_ACCOUNT = "not-covered-account"
    NOT_COVERED_QUEUE = "not-covered-queue"
    NOT_COVERED_KIND = "not-covered-kind"
    NO_WORKLOAD = "no-workload"
    PINNED_NODES = "pinned-nodes"
    PINNED_SHAPE = "pinned-shape"
    PINNED_RESERVATION = "pinned-reservation"
    UNTRANSLATED = "untranslated"
    SITE_RULE = "site-rule"
    COUNTED_BY_QUEUE = "counted-by-queue"
    MOVED_BY_HAND = "moved-by-hand"
    TOGETHER = "together"
    NO_CANDIDATE = "no-candidate"
    STAYS = "stays"

    # One candidate is ruled out.
    CANNOT_RUN = "cannot-run"
    WRONG_ARCHITECTURE = "wrong-architecture"
    INSTRUCTION_SET = "instruction-set"
    FAILS_THERE = "fails-there"
    OTHER_QUEUE = "other-queue"
    OTHER_FEATURES = "other-features"
    OTHER_GRES = "other-gres"
    ONE_SLICE = "one-slice"
    SLICE_NOT_WANTED = "slice-not-wanted"
    QUEUE_NOT_ALLOWED = "queue-not-allowed"
    USER_NOT_ALLOWED = "user-not-allowed"
    ACCOUNT_NOT_ALLOWED = "account-not-allowed"
    QOS_NOT_ALLOWED = "qos-not-allowed"
    TOO_FEW_RESOURCES = "too-few-resources"
    QUEUE_LIMIT = "queue-limit"
    LESS_MEMORY = "less-memory"
    LESS_TIME = "less-time"
    BILLS_MORE = "bills-more"
    PREEMPTIBLE = "preemptible"
    LOWER_PRIORITY = "lower-priority"
    SHARED_CORES = "shared-cores"
    WHOLE_NODES = "whole-nodes"
    PART_OF_NODE = "part-of-node"
    HARDWARE_THREADS = "hardware-threads"
    ADDED_GPUS = "added-gpus"
    NO_BETTER = "no-better"
    NOT_BY_FIT = "not-by-fit"
    SCARCE = "scarce"
    SLOWER = "slower"
    ACCOUNT_LIMIT = "account-limit"
    NOT_ASSOCIATED = "not-associated"
    RULED_OUT = "ruled-out"
    DOWN = "down"
    NOT_CUT = "not-cut"
    OTHER_SLICE = "other-slice"
    STALE_STATE = "stale-state"
    NO_PREDICTION = "no-prediction"
    OUT_OF_RANGE = "out-of-range"
    PRIOR_ONLY = "prior-only"
    INTERVAL_TOO_WIDE = "interval-too-wide"
    INTERVALS_FAIL = "intervals-fail"
    MEMORY = "memory"
    TIME_OVER_LIMIT = "time-over-limit"
    TIME_OVER_QUEUE = "time-over-queue"
    ASKED_TIME_OVER_QUEUE = "asked-time-over-queue"
    NO_PRICE = "no-price"
    NO_ENERGY = "no-energy"
    NO_SCORE = "no-score"


class Ground(StrEnum):
    """What a decision that chose a place is based on, the weakest first."""

    FIT = "fit"
    """The job fits there as written; nothing usable is predicted."""
    KERNELS = "kernel-ratio"
    """How much faster benchmark kernels are on one kind of hardware than on another."""
    POPULATION = "population-ratio"
    """How much faster the site's programs are on one kind of hardware than on another."""
    RUNS = "your-runs"
    """Runs of the program, on this kind of hardware among others."""
    MEASURED = "measured"
    """A pilot measured the program."""
    DESCRIBED = "described"
    """The program's own description: a model's operators, a language model's configuration."""


CHECKED_IN_ORDER: tuple[Code, ...] = (
    Code.CANNOT_RUN,
    Code.WRONG_ARCHITECTURE,
    Code.INSTRUCTION_SET,
    Code.FAILS_THERE,
    Code.OTHER_QUEUE,
    Code.OTHER_FEATURES,
    Code.OTHER_GRES,
    Code.UNTYPED_GPU,
    Code.TOO_FEW_RESOURCES,
    Code.ONE_SLICE,
    Code.SLICE_NOT_WANTED,
    Code.NO_PREDICTION,
    Code.OUT_OF_RANGE,
    Code.PRIOR_ONLY,
    Code.INTERVALS_FAIL,
    Code.INTERVAL_TOO_WIDE,
    Code.MEMORY,
    Code.ASKED_TIME_OVER_QUEUE,
    Code.TIME_OVER_QUEUE,
    Code.TIME_OVER_LIMIT,
    Code.NO_PRICE,
    Code.NO_ENERGY,
    Code.NO_SCORE,
    Code.QUEUE_NOT_ALLOWED,
    Code.USER_NOT_ALLOWED,
    Code.ACCOUNT_NOT_ALLOWED,
    Code.QOS_NOT_ALLOWED,
    Code.NOT_CUT,
    Code.STALE_STATE,
    Code.DOWN,
    Code.RULED_OUT,
    Code.QUEUE_LIMIT,
    Code.NOT_ASSOCIATED,
    Code.ACCOUNT_LIMIT,
    Code.LESS_TIME,
    Code.PREEMPTIBLE,
    Code.LOWER_PRIORITY,
    Code.SHARED_CORES,
    Code.WHOLE_NODES,
    Code.PART_OF_NODE,
    Code.HARDWARE_THREADS,
    Code.LESS_MEMORY,
    Code.ADDED_GPUS,
    Code.BILLS_MORE,
    Code.NO_BETTER,
    Code.NOT_BY_FIT,
    Code.SCARCE,
    Code.SLOWER,
    Code.OTHER_SLICE,
)
"""Reasons that exclude a candidate, in checking order: a candidate that a later check excludes came
nearer to taking the job."""
OF_THE_GATE = frozenset(
    {Code.LESS_TIME, Code.PREEMPTIBLE, Code.LOWER_PRIORITY, Code.SHARED_CORES, Code.WHOLE_NODES,
     Code.PART_OF_NODE, Code.HARDWARE_THREADS, Code.LESS_MEMORY, Code.BILLS_MORE}
)  # fmt: skip
"""Reasons by what the job would lose against where it was submitted (``policies.gate``)."""
OF_THE_PROGRAM = frozenset({Code.CANNOT_RUN, Code.WRONG_ARCHITECTURE, Code.INSTRUCTION_SET})
"""Reasons that lie in the program itself: nothing that its user asks for changes them."""
NOT_ACTED_ON = frozenset(
    {Code.OUT_OF_RANGE, Code.PRIOR_ONLY, Code.INTERVALS_FAIL, Code.INTERVAL_TOO_WIDE}
)
"""Reasons for which a prediction exists but is not good enough to act on."""
OVER_TIME = frozenset({Code.TIME_OVER_LIMIT, Code.TIME_OVER_QUEUE})
"""Reasons by the predicted time: of candidates with these codes, the one with the shortest time
came nearest."""
NOT_PREDICTED = NOT_ACTED_ON | {
    Code.NO_PREDICTION, Code.NO_PRICE, Code.NO_ENERGY, Code.NO_SCORE,
}  # fmt: skip
"""Reasons by which a candidate is not compared with others, although the job may fit there."""
BY_FIT = frozenset({Code.FITS, Code.FITS_ONE})
"""Codes of decisions that choose queues by fit alone."""
PLACES = BY_FIT | {Code.PLACED}
"""Codes of decisions that choose a candidate."""
