"""The frozen values that policies work with: Request, Candidate, Decision and their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from berth.pilot.documents import Document
from berth.policies.codes import Ground
from berth.policies.limits import Rights
from berth.policies.waits import Waits
from berth.predictor.core.prediction import Basis, Interval, MemoryUse


class Mode(StrEnum):
    """The modes of Berth, from doing nothing to changing the job."""

    OFF = "off"
    SHADOW = "shadow"
    ADVISE = "advise"
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of a running job, in scheduler-neutral terms; 0 or None: none are requested."""

    nodes: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    gpus: int = 0
    """Total number of GPUs of the job: whole GPUs or MIG slices."""
    memory_bytes_per_node: int | None = None

    @property
    def cores(self) -> int:
        """Return the total number of CPU cores: tasks x cores per task."""
        return self.tasks * self.cpus_per_task


class MemoryForm(StrEnum):
    """The forms of a request for memory: ``--mem``, ``--mem-per-cpu``, ``--mem-per-gpu``."""

    NODE = "node"
    CORE = "core"
    """The memory per core is rounded up to whole MiB."""
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class DefaultMemory:
    """Defaults of a queue for jobs that do not request memory or cores.

    The first memory default that is set applies, in the order of the fields.
    """

    bytes_per_gpu: int | None = None
    """Default memory per GPU, for jobs that request GPUs."""
    bytes_per_core: int | None = None
    bytes_per_node: int | None = None
    node_bytes: int | None = None
    """All memory of the queue's smallest node: what a job gets where the queue sets no default."""
    node_cores: int = 1
    """Cores of the queue's smallest node: multiplied by the default memory per core where a job
    gets whole nodes."""
    most_node_cores: int | None = None
    """Cores of the queue's largest node (hardware threads, where jobs are given threads).

    Used to compute the fewest nodes that a job needs. None: not known.
    """
    cores_given_by: int = 1
    """The scheduler rounds a job's cores on each node up to a multiple of this number: the hardware
    threads of a core."""
    whole_nodes: bool = False
    """True: every job of the queue gets whole nodes, with the memory of all their cores."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What the user wrote about the job's layout and deadline; it holds on every candidate."""

    tasks_per_node: int | None = None
    """Most tasks on one node; it applies while the number of tasks is unchanged."""
    max_nodes: int = 0
    """Most nodes, as the user wrote it; it applies while the least number of nodes is unchanged. 0:
    none."""
    min_cores_per_node: int = 0
    memory_form: MemoryForm | None = None
    """The option by which the user requested memory; None: no memory was requested."""
    all_memory: bool = False
    """True: the user requested all memory of each node (``--mem=0``)."""
    exclusive: bool = False
    """True: the user requested whole nodes, so all cores of each node count as used by the job."""
    cores_per_gpu: int = 0
    prefer: str | None = None
    """Node features that the user prefers but does not require."""
    finish_within_s: float | None = None
    """The deadline, in seconds from submission; None: the job states no deadline."""
    never_requeue: bool = False
    """True: the user forbade the scheduler to start the job again (``--no-requeue``)."""


@dataclass(frozen=True, slots=True)
class TaskArray:
    """A job array whose tasks differ only by their index: ``--array=0-59%4``."""

    tasks: int
    """The number of tasks, at least 2: an array of one task is treated as a single job."""
    at_once: int | None = None
    """Most tasks that may run at the same time, as the user wrote it; None: all of them."""
    sizes: tuple[tuple[float, int], ...] = ()
    """Pairs of a problem size and the number of tasks that have this size, by ascending size.
    Empty: all tasks are equal."""


class Makespan(NamedTuple):
    """The expected time until the last task of an array ends, with the numbers behind it."""

    tasks: int
    at_once: int
    """Number of tasks that are expected to run at the same time."""
    wait_s: float
    """Seconds until ``at_once`` tasks can run; 0: they can run now."""
    seconds: float
    """Seconds from submission to the end of the last task: the wait plus all rounds of tasks."""
    work: float
    """Sum of the run times of all tasks, divided by the run time of the longest task."""

    @property
    def length_s(self) -> float:
        """Return the makespan without the wait, in seconds."""
        return self.seconds - self.wait_s

    @property
    def unequal(self) -> bool:
        """Return whether the tasks have different run times."""
        return self.work < self.tasks


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Limits of a queue on each job. None: unlimited."""

    min_nodes: int = 0
    max_nodes: int | None = None
    max_cores_per_node: int | None = None
    max_memory_bytes_per_node: int | None = None
    max_memory_bytes_per_core: int | None = None
    default_memory_bytes_per_node: int | None = None
    """Memory per node of a job that requests none."""
    default_memory_bytes_per_core: int | None = None
    max_time_s: float | None = None
    default_time_s: float | None = None
    exclusive: bool = False
    """True: every job of the queue gets whole nodes."""
    cpus_per_core: int = 1
    """Hardware threads per core that the scheduler counts where a job holds a whole node."""
    default_cores_per_gpu: int = 0
    """Cores that a job gets with each GPU without requesting them; 0: none."""
    weighted: bool = False
    """True: the queue has its own billing weights, so limits on billing cannot be checked."""
    billing_weights: tuple[tuple[str, float], ...] = ()
    """Weight of each resource in the billing of a job, by the names in limits; memory by MiB.
    Empty: a job is billed for its cores, or the weights are not known (``weighted``)."""
    preemptible: str | None = None
    """Why other jobs may interrupt jobs of this queue; None: they may not."""
    interruption: int = 0
    """What becomes of an interrupted job: 1: suspended, 2: started again, 3: cancelled."""
    jobs_per_core: int = 0
    """Jobs that share a core whatever they ask for (``OverSubscribe=FORCE:2``); 0: a job that asks
    for whole nodes gets them."""
    priority_tier: int = 1
    """Jobs of a queue with a higher tier are started before those of a lower one."""
    priority_factor: int = 1
    """The queue's part in the priority of a job (``PriorityJobFactor``)."""
    by_user: bool = False
    """True: a node runs the jobs of one user at a time (``ExclusiveUser``)."""


UNBOUNDED = QueueBounds()


@dataclass(frozen=True, slots=True)
class OwnQueue:
    """The queue where a job was submitted: what the job gets if Berth leaves it alone."""

    name: str = ""
    bounds: QueueBounds | None = None
    """The queue's limits and rules; None: not known, so that nothing is compared with them."""
    default_memory: DefaultMemory | None = None
    """None: memory is not limited there."""
    limit_s: float | None = None
    """The time limit in seconds of a job that names none; None: no limit, or not known."""
    cores_per_node: int = 1
    """Cores of the queue's largest node, which a job on whole nodes may be billed."""
    cpus_per_core: int = 1
    """Fewest hardware threads that the scheduler counts on a core of any of its nodes."""
    places: tuple[str, ...] | None = None
    """Names of the candidates that share working nodes with the queue: on these nodes the job may
    start. Empty: the queue starts no such job; None: nothing is known of its nodes."""
    has_others: bool = False
    """True: the queue has working nodes of no candidate, on which the job may start as well."""
    pending_jobs: int = 0

    @property
    def may_start(self) -> bool:
        """Return whether the job may start where it was submitted, as far as is known."""
        return self.has_others or self.places is None or bool(self.places)


@dataclass(frozen=True, slots=True)
class Request:
    """The job as its user submitted it, in scheduler-neutral terms."""

    user: str
    account: str | None
    resources: Resources
    queue: str | None = None
    """Partition or queue as the user wrote it; None: the user named none."""
    wants_placement: bool = False
    """True: the user let Berth choose the queue (for example ``--partition=auto``)."""
    pinned: tuple[str, ...] = ()
    """What the user chose explicitly and Berth must keep: "partition", "constraint", "gres",
    "nodes", "nodelist", "reservation", "licenses", "qos". A ``queue`` without
    ``wants_placement``, ``features`` and ``gres`` count as pinned even when not named here."""
    features: str | None = None
    """Node features (constraint) as the user wrote them."""
    gres: str | None = None
    """GPU resources as the user wrote them, for example ``gpu:h200:2`` or ``gpu:1``."""
    qos: str | None = None
    time_limit_s: float | None = None
    workload: str | None = None
    size: float | None = None
    """Problem size, where the user gave one with the workload's name.

    For an array whose tasks differ it is the largest size; memory and time limit are per task.
    """
    opted_out: bool = False
    array: TaskArray | None = None
    """The job array; None: a single job."""
    allowed_queues: frozenset[str] | None = None
    """Queues this submitter may use; None: the scheduler did not say (no filtering)."""
    needs: Demands = Demands()
    keeps_shape: bool = False
    """True: the script itself names its tasks or cores, so they stay as requested whatever the site
    file allows."""
    packs_steps: bool = False
    """True: the script starts several job steps at once; each step would take the GPUs that Berth
    adds to the job."""
    follows_shape: bool = False
    """True: the script starts as many tasks and threads as the scheduler gives to the job, so Berth
    may change both."""
    own: OwnQueue | None = None
    """What the job gets if Berth leaves it alone. None: not known, or the user named a queue."""
    slices_from_use: bool = True
    """Whether a program known from past jobs alone may go to a MIG slice on which it never ran, by
    what it used of whole GPUs."""
    component: int | None = None
    """The number of this component of a heterogeneous job; None: the job has only one."""
    scheduler_since_s: float | None = None
    """Unix time of the scheduler's last start; None: not known.

    Older readings of MIG slices are ignored, because GPUs may have been re-cut before that start.
    """

    @property
    def default_memory(self) -> DefaultMemory | None:
        """Return the defaults of the job's own queue; None: memory is not limited there, or the
        queue is not known."""
        return None if self.own is None else self.own.default_memory

    @property
    def array_tasks(self) -> int:
        """Return the number of tasks of the array; 1 for a single job."""
        return 1 if self.array is None else self.array.tasks


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A candidate from which the scheduler's refusal sent a job back, or where a program failed at
    once.

    Berth does not use it for this user, nor for this workload, until the entry is cleared.
    """

    candidate: str
    user: str
    workload: str
    reason: str
    """The scheduler's reason, for example ``QOSMaxCpuPerJobLimit``; with ``of_workload`` how it
    failed."""
    job: str
    since_s: float
    of_workload: bool = False
    """True: only this user's jobs of this workload are meant."""


@dataclass(frozen=True, slots=True)
class CandidateState:
    """A candidate's present state; ``as_of_s`` is the Unix time when it was read."""

    up: bool
    idle_cores: int
    idle_gpus: int
    pending_jobs: int
    as_of_s: float
    usable_nodes: int | None = None
    """Nodes that are neither down nor drained; None: the scheduler did not report them."""
    gpu_types: tuple[str, ...] = ()
    """GPU types (as in ``gres``) that the queue's nodes have at present, sorted."""
    bounds: QueueBounds = UNBOUNDED
    ruled_out: tuple[RuledOut, ...] = ()
    rights: Rights | None = None
    """Limits of users, accounts and QOS; None: the scheduler enforces none."""
    waits: Waits | None = None
    """Predicted queue waits by job size and run time; None: the wait is estimated from the number
    of pending jobs."""
    closed: str | None = None
    """Why the queue takes no jobs, in the scheduler's word with its meaning; None: not reported."""
    default_memory: DefaultMemory | None = None
    """The queue's defaults; None: the scheduler does not allocate memory, or did not say."""
    node_sizes: tuple[tuple[int, int, int], ...] | None = None
    """(CPUs, memory in bytes, number of nodes) of the working nodes; None: not known."""
    refuses_lists: bool = False
    """True: the scheduler refuses a list of queues where one of them refuses the job."""
    all_node_sizes: tuple[tuple[int, int, int], ...] | None = None
    """``node_sizes`` with the nodes that do not work at present; None: not known."""


class Translation(Document):
    """`[candidates.translation]`: how a job's request becomes a request at this candidate.

    The number of tasks and the cores per task stay as requested unless the site
    (``keep_tasks=False``) or the workload (``Request.follows_shape``) says that they may change.
    The cores per task never become fewer. GPU candidates keep the requested number of GPUs. A
    request without GPUs gets one GPU per ``tasks_per_gpu`` tasks (at least ``gpus``), which its
    tasks share. Where tasks and cores may change, the job gets one task per GPU with
    ``cpus_per_gpu`` cores, and at most ``max_cores``.
    """

    gpus: int = Field(
        0, ge=0, le=100_000, description="fewest GPUs or slices for a request that names none"
    )
    tasks_per_gpu: int | None = Field(
        None, ge=1, le=1_000_000, description="one GPU for each so many tasks of such a request"
    )
    cpus_per_gpu: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="cores for each GPU, where the shape may change; none: as asked",
    )
    keep_tasks: bool | None = Field(
        None,
        description="true: tasks and their cores stay as asked; false: such a request gets "
        "one task a GPU, unless its script names its own numbers; absent: only "
        "for workloads added with `--follows-shape`",
    )
    max_nodes: int | None = Field(None, ge=1, description="requests that need more do not fit")
    max_cores: int | None = Field(None, ge=1, description="requests for more cores do not fit")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One choice for a job at this site: a queue (with constraint and gres) on a hardware
    platform.
    """

    name: str
    platform: str
    queue: str
    """Partition (Slurm) or queue (Flux)."""
    constraint: str | None = None
    gres: str | None = None
    """GPU resource type as the scheduler names it, for example ``gpu:h200``, without a count."""
    translation: Translation = Translation()  # noqa: RUF009 - frozen
    cores_per_node: int = 1
    memory_bytes_per_node: int | None = None
    gpus_per_node: int = 0
    gpu_memory_bytes: int | None = None
    slice_of: str | None = None
    """Platform of the whole GPU, where this candidate offers MIG slices of it; None: no slices."""
    slice_part: float = 1.0
    """Fraction of the whole GPU that other jobs cannot use: the larger of the slice's fractions of
    compute and memory."""
    nodes: int | None = None
    """Total number of nodes of this kind; None: not known."""
    features: tuple[str, ...] = ()
    """Features that every node of this candidate has."""
    max_time_s: float | None = None
    default_time_s: float | None = None
    """The time limit of a job that requests none; None: ``max_time_s``."""
    price_per_gpu_hour: float | None = None
    price_per_core_hour: float | None = None
    power_per_gpu_w: float | None = None
    """Mean power of one GPU or slice under load, by the data sheet; None: not known."""
    power_per_core_w: float | None = None
    """Mean power of one core; on GPU candidates it counts the host's cores. None: not counted."""
    targets: tuple[str, ...] = ("cpu",)
    architecture: str = "x86_64"
    instruction_sets: tuple[str, ...] = ()
    allowed_users: frozenset[str] | None = None
    allowed_accounts: frozenset[str] | None = None
    allowed_qos: frozenset[str] | None = None
    speed_rank: int = 0
    """Place of its hardware among the site's candidates by speed; 0: the fastest."""
    scarce: bool = False
    """True: nodes with far more memory than most, which are kept for the jobs that need it."""
    by_fit: bool = True
    """False: jobs come here by a prediction only, never because they fit."""

    @property
    def is_gpu(self) -> bool:
        """Return whether jobs get GPUs or MIG slices on this candidate."""
        return self.gpus_per_node > 0


class Ranked(NamedTuple):
    """A candidate with its score, or with the reason that ruled it out."""

    candidate: str
    platform: str
    resources: Resources
    score: float | None
    """The objective's score, in its unit; smaller is better. None: the candidate is ruled out, or
    it only fits (``excluded`` is None) and nothing usable is predicted for it."""
    runtime_s: Interval | None
    speedup: Interval | None
    memory: MemoryUse | None
    cost: float | None
    basis: Basis | None
    excluded: str | None = None
    """One sentence: why this candidate is ruled out; None: it is not."""
    code: str | None = None
    """Stable code of the reason in ``excluded``, explained in docs/reasons.md."""
    warning: str | None = None
    """What to know before trusting this candidate, for example that no data exist for its
    platform."""
    guess: bool = False
    """True: the candidate ranks after every candidate that is not a guess.

    A candidate is a guess where the prediction abstains, where the prediction is a prior (no data
    for the platform) and the site does not allow priors, or where the candidate may lack CPU
    instructions that the program needs. The submit filter never chooses a guess; people see it.
    """
    source: str = ""
    """Predictor families and methods that the run time comes from, with weights where there are
    several."""
    makespan: Makespan | None = None
    """The makespan of an array by the present state; ``runtime_s`` is then that of the largest
    task. None: a single job, or the candidate is ruled out whatever its state."""
    ratio_log_width: float = math.inf
    """Half width in natural log with which the run time enters a comparison with other candidates:
    the error that they share is not in it. Infinity: no time is predicted."""
    usual_ratio: float | None = None
    """How many times longer the site's programs usually run here than on a platform that is the
    same for all candidates; None: not known."""

    @property
    def known_ratio_log_width(self) -> float | None:
        """Return ``ratio_log_width``; None instead of infinity, which JSON does not have."""
        return self.ratio_log_width if math.isfinite(self.ratio_log_width) else None

    @property
    def length_s(self) -> float:
        """Return the expected run time in seconds, for an array until its last task ends; 0: not
        known."""
        if self.makespan is not None:
            return self.makespan.length_s
        return 0.0 if self.runtime_s is None else self.runtime_s.mid


@dataclass(frozen=True, slots=True)
class Edit:
    """The changes to the job, in scheduler-neutral terms; None: that part stays as it is."""

    queue: str | None = None
    constraint: str | None = None
    gres: str | None = None
    """GPU resources with the count per node, for example ``gpu:h200:1``."""
    adds_type: bool = False
    """True: ``gres`` is the user's own request with a slice type added."""
    resources: Resources | None = None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen candidate (None: Berth abstained), the alternatives, the edit and the reason."""

    id: str
    """Stable digest of request, bundle and state: the same input gives the same id."""
    chosen: str | None
    ranked: tuple[Ranked, ...]
    edit: Edit | None
    reason: str
    """One sentence that a user understands."""
    policy: str
    bundle: str
    inputs_digest: str
    code: str = "placed"
    """Stable code of the reason, explained in docs/reasons.md."""
    ground: Ground | None = None
    """What the choice is based on; None: none was made."""
