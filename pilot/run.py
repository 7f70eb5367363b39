"""Run: some work ran somewhere, in one shape, for so long, with so much memory, and ended so."""

from __future__ import annotations

from dataclasses import dataclass

ENDED = frozenset(("completed", "failed", "timeout", "out-of-memory", "cancelled"))
"""States of a run that has ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job: what was asked for, where and how long it ran, what it used.

    Cluster, job id and submission identify it. None and empty texts: not recorded. Times are Unix
    seconds, memory is in bytes.
    """

    cluster: str
    """The site's name; empty as long as only a scheduler knows the run."""
    job_id: str
    user: str = ""
    state: str = "unknown"
    """``pending``, ``running``, one of ``ENDED``, or ``unknown``."""
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    elapsed_s: float = 0.0
    """Seconds from the start to the end, or until now, without the time the job was suspended."""
    cores: int | None = None
    """CPUs on all nodes together as the scheduler counts them: on Slurm, these may be hardware
    threads."""
    nodes: int | None = None
    """Number of nodes."""
    gpus: int | None = None
    """Number of whole GPUs or slices on all nodes together."""
    gpu_type: str = ""
    """The scheduler's type of the job's GPUs or slices, such as ``a100``."""
    partition: str = ""
    """Slurm's partition or Flux's queue."""
    node_list: str = ""
    """The job's nodes as a compressed list, for example ``cn[001-004]``."""
    account: str = ""
    name: str = ""
    program: str = ""
    """The program's name, where the site's rules recognise it."""
    script: str = ""
    """Digest of the normalised text of the job's script."""
    arguments: str = ""
    """Digest of the script's arguments, or of the command that the job ran."""
    similar: str = ""
    """Digest like ``arguments``, computed with all numbers left out."""
    time_limit_s: float | None = None
    request_bytes: int | None = None
    """Requested memory per node."""
    exit_status: int | None = None
    """The exit status as a shell reports it."""
    peak_bytes: int | None = None
    """The largest host memory used on one node."""
    peak_source: str = ""
    """``cgroup``: the kernel's own peak; ``polled``: sampled, so short peaks are missed;
    ``reported``: of an archive that does not say which."""
    gpu_peak_bytes: int | None = None
    """The largest memory used on one GPU or slice."""
    cpu_time_s: float | None = None
    """Processor time of all processes."""
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    energy_j: float | None = None
    gpu_utilisation: float | None = None
    """Mean utilisation of the job's GPUs, from 0 to 1."""
    gpu_utilisation_peak: float | None = None
    """The largest polled utilisation of a GPU, from 0 to 1."""
    gpu_memory_utilisation: float | None = None
    """Mean share of the time with memory accesses on the job's GPUs, from 0 to 1."""
    raw_id: str = ""
    """The number by which nodes and monitoring know the job, where accounting names it otherwise,
    such as a task of an array."""
    decision: str | None = None
    """Id of Berth's decision, from the job's comment; empty: another text stands in the comment's
    place."""
