"""The values of a policy: Request, Candidate, Decision and their parts. All frozen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from berth.policies.carbon import Intensity
from berth.policies.limits import Rights, UsedShares
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
    """Resources of a running job, in scheduler-neutral terms. 0 or None: not asked."""

    nodes: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    gpus: int = 0
    """GPUs in all, whole ones or slices."""
    memory_bytes_per_node: int | None = None

    @property
    def cores(self) -> int:
        """Return the CPU cores in all."""
        return self.tasks * self.cpus_per_task


class MemoryForm(StrEnum):
    """The forms of a request for memory: ``--mem``, ``--mem-per-cpu``, ``--mem-per-gpu``."""

    NODE = "node"
    CORE = "core"
    """Counted, and limited, in whole MiB a core."""
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class DefaultMemory:
    """Defaults of a queue for a job that does not ask; of memory the first that is set counts."""

    bytes_per_gpu: int | None = None
    """The default of jobs with GPUs."""
    bytes_per_core: int | None = None
    bytes_per_node: int | None = None
    node_bytes: int | None = None
    """All memory of the queue's smallest node: what a job gets where there is no default."""
    node_cores: int = 1
    """Cores of the queue's smallest node, as the default by core is multiplied."""
    most_node_cores: int | None = None
    """Cores (or threads, where jobs are given those) of the queue's largest node: on how many
    nodes a job is at least. None: not known."""
    cores_given_by: int = 1
    """On each node the cores that count are a multiple of this: a core's hardware threads."""
    whole_nodes: bool = False
    """Every job of the queue gets whole nodes, and their cores' memory."""
    cores_per_gpu: int = 0
    """Cores that a job gets with each GPU without asking for them; 0: none."""
    cpus_per_core: int = 1
    """Hardware threads of a core that jobs are given as cores."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The user's words about the job's layout and end; each is kept wherever the job goes."""

    tasks_per_node: int | None = None
    """At most so many tasks on one node, as long as the number of tasks stays."""
    max_nodes: int = 0
    """As long as the least number of nodes stays as asked, this most stays, too."""
    min_cores_per_node: int = 0
    memory_form: MemoryForm | None = None
    """The form in which memory was asked for; None: it was not."""
    all_memory: bool = False
    """All memory of a node was asked, however much that is (``--mem=0``)."""
    exclusive: bool = False
    """Whole nodes: all their cores count, whatever is asked of them."""
    cores_per_gpu: int = 0
    prefer: str | None = None
    """Node features that are wanted, not demanded."""
    finish_within_s: float | None = None
    """The deadline, in seconds from submission; None: none of its own."""


@dataclass(frozen=True, slots=True)
class TaskArray:
    """An array of jobs that differ by their index alone: ``--array=0-59%4``."""

    tasks: int
    """The number of tasks, at least 2: a single one is a job like others."""
    at_once: int | None = None
    """So many may run at a time, as its user wrote it; None: all."""
    sizes: tuple[tuple[float, int], ...] = ()
    """Problem sizes, ascending, and how many tasks have each; empty: all tasks are alike."""


class Makespan(NamedTuple):
    """The expected end of an array's last task, and how it comes about."""

    tasks: int
    at_once: int
    """So many of them are expected to run at a time."""
    wait_s: float
    """Seconds until so many can run; 0: now."""
    seconds: float
    """Seconds from the submission to the end of the last task: the wait and every round of
    tasks."""
    work: float
    """The times of all tasks together, over that of the longest."""

    @property
    def length_s(self) -> float:
        """Return the time without the wait, in seconds."""
        return self.seconds - self.wait_s

    @property
    def unequal(self) -> bool:
        """Return whether the tasks differ."""
        return self.work < self.tasks


@dataclass(frozen=True, slots=True)
class Request:
    """The job as its submitter asked for it, in scheduler-neutral terms."""

    user: str
    account: str | None
    resources: Resources
    queue: str | None = None
    """Partition or queue as the user wrote it; None: none given."""
    wants_placement: bool = False
    """The user asked Berth to choose (for example ``--partition=auto``)."""
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
    """Problem size, where the user gave one with the workload's name; of an array whose tasks
    differ, the largest: memory and time limit are each task's."""
    opted_out: bool = False
    array: TaskArray | None = None
    """None: one job."""
    allowed_queues: frozenset[str] | None = None
    """Queues this submitter may use; None: the scheduler did not say (no filtering)."""
    needs: Needs = Needs()
    keeps_shape: bool = False
    """Its script names its tasks or cores itself: they stay, whatever the site file says."""
    packs_steps: bool = False
    """Its script starts several steps at once: each would take GPUs that are added to the job."""
    follows_shape: bool = False
    """Its script starts as many tasks and threads as the scheduler gives it: they may change."""
    default_memory: DefaultMemory | None = None
    """The defaults of the queue where the job goes if it is left alone. None: its memory is not
    limited, or it named a queue of its own."""
    component: int | None = None
    """The number of a heterogeneous job's component; None: the job is one piece."""
    scheduler_since_s: float | None = None
    """Unix time since when the scheduler runs as it is now; older readings of slices do not
    count, for GPUs may have been cut anew before that. None: it does not say."""

    @property
    def array_tasks(self) -> int:
        """Return how many jobs it is."""
        return 1 if self.array is None else self.array.tasks


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Limits of a queue on each job. None: unlimited."""

    min_nodes: int = 0
    max_nodes: int | None = None
    max_cores_per_node: int | None = None
    max_memory_bytes_per_node: int | None = None
    max_memory_bytes_per_core: int | None = None
    default_memory_bytes_per_node: int | None = None
    """The memory of a job that asks for none."""
    default_memory_bytes_per_core: int | None = None
    max_time_s: float | None = None
    default_time_s: float | None = None
    exclusive: bool = False
    """Every job gets whole nodes."""
    cpus_per_core: int = 1
    """Whole nodes count as so many times their cores: by hardware threads."""
    default_cores_per_gpu: int = 0
    """Cores that come with each GPU; 0: none."""
    weighted: bool = False
    """Billing is counted by weights of the queue's own."""


UNBOUNDED = QueueBounds()


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A place that a job was put back from: not for that user nor that workload until cleared."""

    candidate: str
    user: str
    workload: str
    reason: str
    """The scheduler's reason, for example ``QOSMaxCpuPerJobLimit``."""
    job: str
    since_s: float


@dataclass(frozen=True, slots=True)
class CandidateState:
    """A candidate's present state. ``as_of_s`` is Unix time of the reading."""

    up: bool
    idle_cores: int
    idle_gpus: int
    pending_jobs: int
    as_of_s: float
    usable_nodes: int | None = None
    """Nodes that are neither down nor drained; None: the scheduler did not say."""
    gpu_types: tuple[str, ...] = ()
    """GPU types (as in ``gres``) that the queue's nodes have at present, sorted."""
    bounds: QueueBounds = UNBOUNDED
    ruled_out: tuple[RuledOut, ...] = ()
    rights: Rights | None = None
    """Limits of users, accounts and their like; None: the scheduler enforces none."""
    waits: Waits | None = None
    """Predicted waits by class of job; None: waiting is guessed from the pending jobs."""
    used_shares: UsedShares | None = None
    """Recent use of users; None: everybody counts as at the fair share."""
    closed: str | None = None
    """The scheduler's word for a queue that is not up, and its meaning for jobs."""


@dataclass(frozen=True, slots=True)
class Translation:
    """The rule of the site file by which a request becomes this candidate's resources.

    Tasks and cores of each task stay as asked unless the site (``keep_tasks=False``) or the
    workload (``Request.follows_shape``) says that they may change; cores of a task never get
    fewer. GPU candidates keep the number of GPUs that was asked; a request without GPUs becomes
    one GPU for every ``tasks_per_gpu`` tasks (at least ``gpus``), shared by its tasks. Where the
    shape may change it gets one task a GPU with ``cpus_per_gpu`` cores.
    """

    gpus: int = 0
    cpus_per_gpu: int | None = None
    tasks_per_gpu: int | None = None
    max_nodes: int | None = None
    max_cores: int | None = None
    """Requests for more do not fit; where the shape may change, their tasks are cut down."""
    keep_memory: bool = True
    """True: the memory in all stays as asked, shared over the new number of nodes. False:
    on CPU candidates the predicted upper bound is asked instead."""
    keep_tasks: bool | None = None
    """True: the shape stays as asked. False: it may change, unless the script names its own.
    None: it may change for workloads that follow what they are given."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place at this site: a scheduler target on a platform."""

    name: str
    platform: str
    queue: str
    """Partition (Slurm) or queue (Flux)."""
    constraint: str | None = None
    gres: str | None = None
    """GPU resource type as the scheduler names it, for example ``gpu:h200`` (count added)."""
    translation: Translation = Translation()
    cores_per_node: int = 1
    memory_bytes_per_node: int | None = None
    gpus_per_node: int = 0
    gpu_memory_bytes: int | None = None
    slice_of: str | None = None
    """Platform of the whole GPU, where this candidate gives MIG slices of it."""
    slice_part: float = 1.0
    """Part of that GPU that others cannot have: the larger of its parts of compute and memory."""
    nodes: int | None = None
    """Nodes of this kind in all; None: not known."""
    features: tuple[str, ...] = ()
    """Features that every node of this candidate has."""
    max_time_s: float | None = None
    default_time_s: float | None = None
    """The time limit of a job without one; None: the longest."""
    price_per_node_hour: float | None = None
    price_per_gpu_hour: float | None = None
    price_per_core_hour: float | None = None
    power_per_gpu_w: float | None = None
    """Mean power of a GPU or slice under a job, by the data sheet; None: not known."""
    power_per_core_w: float | None = None
    """Mean power of a core; with GPUs, of the cores beside them (None: not counted)."""
    carbon: Intensity | None = None
    """Carbon intensity of the electricity there."""
    targets: tuple[str, ...] = ("cpu",)
    architecture: str = "x86_64"
    instruction_sets: tuple[str, ...] = ()
    allowed_users: frozenset[str] | None = None
    allowed_accounts: frozenset[str] | None = None
    allowed_qos: frozenset[str] | None = None

    @property
    def is_gpu(self) -> bool:
        """Return whether jobs are given GPUs or slices, not only cores."""
        return self.gpus_per_node > 0


class Ranked(NamedTuple):
    """One candidate with its score, or the hard constraint that ruled it out."""

    candidate: str
    platform: str
    resources: Resources
    score: float | None
    """Smaller is better; the objective's unit. None: ruled out."""
    runtime_s: Interval | None
    speedup: Interval | None
    memory: MemoryUse | None
    cost: float | None
    basis: Basis | None
    excluded: str | None = None
    """One sentence: why this candidate is ruled out."""
    code: str | None = None
    """Stable code of that reason, explained in docs/reasons.md."""
    warning: str | None = None
    """What to know before trusting this candidate (a prediction that is only a prior, say)."""
    guess: bool = False
    """The prediction abstains, or is a prior and the site does not allow those (for a person to
    look at, never chosen by the filter), or the place is not known to have the instructions that
    the program needs: never before a candidate of which more is known."""
    source: str = ""
    """Families and methods that the time is from, with their weights where there are several."""
    makespan: Makespan | None = None
    """The makespan of an array by the present state; ``runtime_s`` is then one task's (the
    largest's). None: one job, or the candidate is ruled out whatever its state."""

    @property
    def length_s(self) -> float:
        """Return how long it is expected to run: an array until its last task ends; 0: not
        known."""
        if self.makespan is not None:
            return self.makespan.length_s
        return 0.0 if self.runtime_s is None else self.runtime_s.mid


@dataclass(frozen=True, slots=True)
class Edit:
    """The change to the job, scheduler-neutral; None: leave as it is."""

    queue: str | None = None
    constraint: str | None = None
    gres: str | None = None
    """GPU resources with the count, for example ``gpu:h200:1``."""
    adds_type: bool = False
    """``gres`` is what the user wrote with the type of a slice added to it."""
    resources: Resources | None = None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Explored:
    """Why a job was sent somewhere to learn, and what that is at most."""

    instead_of: str
    """The candidate that is predicted best."""
    core_hours: float
    """Taken from the budget."""
    value: float
    """Expected gain of the program's next jobs together, in log time (or score)."""
    loss: float
    """Expected loss of this job, in the same unit."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen candidate (or None: abstained), the alternatives, the edits and the reason."""

    id: str
    """Stable digest of request, bundle and state: the same input gives the same decision."""
    chosen: str | None
    ranked: tuple[Ranked, ...]
    edit: Edit | None
    reason: str
    """One sentence that a user understands."""
    policy: str
    bundle: str
    inputs_digest: str
    code: str = "placed"
    """Stable code of the kind of reason, explained in docs/reasons.md."""
    explored: Explored | None = None
    """None: the best place was chosen, or none."""
