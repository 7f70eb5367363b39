"""Translates the job of the submit protocol into a policy's Request, the same for all schedulers.

``choice`` reads which workload the job names; ``request`` reads the resources that the job
requests. Neither reads a file or the store.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from berth.pilot.units import parse_duration_s, whole_number
from berth.plugin.daemon.protocol import SubmittedJob
from berth.policies.codes import Code
from berth.policies.values import (
    Demands,
    MemoryForm,
    Mode,
    OwnQueue,
    Request,
    Resources,
    TaskArray,
)

_MIB = 2**20
DEADLINE = "berth-deadline:"
_DEADLINE = re.compile(rf"(?:^|[\s,;]){DEADLINE}([^\s,;]*)")
_MARK = re.compile(r"(?:^|[\s,;])berth:([^\s,;]*)")
_FILE = re.compile(r"(?:^|[\s,;])berth-file:sha256-([0-9a-f]{64})(?=[\s,;]|$)")
"""The mark that the client filter writes in place of the file path that the user gave."""
_NAME = re.compile(
    r"((?:[^\s,;/]{1,64}/)?[A-Za-z0-9][A-Za-z0-9_.+-]{0,127})(?:@([0-9.eE+:i-]{1,4096}))?"
)
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_SIZE_BY_INDEX = re.compile(rf"(?:({_NUMBER})(?=[+-]))?([+-]?{_NUMBER})i")
"""Matches sizes computed from the array index: with ``100+10i``, task 3 has size 130."""
_MOST_SIZED_TASKS = 10_000
_MOST_SIZES = 32
"""Maximum number of distinct sizes in an array; the runtime is looked up for each."""
_GPU = re.compile(r"(?:gres[:/])?gpu(?::(?!\d+(?:\(|$))[^:,=()]+)?(?:[:=](\d{1,6}))?(?:\([^)]*\))?")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
NO_QUEUES: Mapping[str | None, OwnQueue] = MappingProxyType({})
_ORDER = (Mode.OFF, Mode.SHADOW, Mode.ADVISE, Mode.ENFORCE)


class NamedWorkload(NamedTuple):
    """The workload and mode that the submitter named in the job's comment or environment."""

    workload: str | None = None
    size: float | None = None
    opted_out: bool = False
    problem: str | None = None
    """Why the submitter's text could not be understood; such a job is left unchanged."""
    sizes: tuple[tuple[float, int], ...] = ()
    """For an array whose tasks differ in size: (size, number of tasks), as in TaskArray; ``size``
    is then the largest.
    """
    code: Code = Code.BAD_WORKLOAD_NAME
    """The code reported with ``problem``."""
    file: str | None = None
    """Digest of the file that the job names instead of a workload."""


def choice(job: SubmittedJob) -> NamedWorkload:
    """Return the workload that the job names in its comment, or else in its environment."""
    if job.mode == "off":
        return NamedWorkload(opted_out=True)
    try:
        _deadline_s(job)
    except ValueError as error:
        return NamedWorkload(problem=str(error), code=Code.BAD_DEADLINE)
    mark = _MARK.search(job.comment) if job.comment and "berth:" in job.comment else None
    if mark is not None:
        return _named(mark[1], "--comment=berth:", job.array)
    if job.workload:
        return _named(job.workload, "BERTH_WORKLOAD=", job.array)
    file = _FILE.search(job.comment) if job.comment and "berth-file:" in job.comment else None
    return NamedWorkload() if file is None else NamedWorkload(file=f"sha256:{file[1]}")


def _named(text: str, source: str, array: str | None) -> NamedWorkload:
    if text == "off":
        return NamedWorkload(opted_out=True)
    match = _NAME.fullmatch(text)
    if match is None:
        return NamedWorkload(problem=f"{source}{text[:80]} is not a workload's NAME or NAME@SIZE.")
    if match[2] is None:
        return NamedWorkload(match[1])
    try:
        if ":" not in match[2] and "i" not in match[2]:
            return NamedWorkload(match[1], _size(match[2]))
        sizes = sizes_of_tasks(match[2], array)
    except ValueError as error:
        return NamedWorkload(problem=f"{source}{text[:80]}: {error}.")
    return NamedWorkload(match[1], sizes[-1][0], sizes=sizes if len(sizes) > 1 else ())


def _size(text: str) -> float:
    """Return the problem size in ``text``. Raises ValueError with a message for the user."""
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise ValueError("the size is not a positive number")
    return size


def sizes_of_tasks(text: str, indices: str | None) -> tuple[tuple[float, int], ...]:
    """Return the problem sizes of an array's tasks, ascending, each with its number of tasks.

    ``100:250:90`` has one size for each task by ascending index; ``100+10i`` computes the size from
    the index. If there are more than 32 distinct sizes, neighbouring sizes are merged into the
    larger one. Raises ValueError with a message for the user.
    """
    ranges = _ranges(indices or "")
    if not ranges:
        raise ValueError("sizes by task are for arrays, and this job is none")
    tasks = sum(map(len, ranges))
    if tasks > _MOST_SIZED_TASKS:
        raise ValueError(f"sizes by task are for at most {_MOST_SIZED_TASKS} tasks")
    rule = _SIZE_BY_INDEX.fullmatch(text)
    if rule is not None:
        start, step = float(rule[1] or 0), float(rule[2])
        sizes = [start + step * index for part in ranges for index in part]
        if not all(0 < size < math.inf for size in sizes):
            raise ValueError("the size of a task would not be a positive number")
    elif "i" in text:
        raise ValueError("a size from the index i is written as 100+10i")
    else:
        sizes = [_size(word) for word in text.split(":")]
        if len(sizes) != tasks:
            raise ValueError(f"it names {len(sizes)} sizes for an array of {tasks} tasks")
    return _grouped(sizes)


def _grouped(sizes: list[float]) -> tuple[tuple[float, int], ...]:
    """Merge neighbouring sizes into at most ``_MOST_SIZES`` groups.

    Returns pairs of the largest size in a group and the group's number of tasks.
    """
    counts = sorted(Counter(sizes).items())
    each = -(-len(counts) // _MOST_SIZES)
    groups = (counts[n : n + each] for n in range(0, len(counts), each))
    return tuple((group[-1][0], sum(count for _, count in group)) for group in groups)


def effective_mode(site: Mode, asked: str | None) -> Mode:
    """Return the less active of the site's mode and the job's own; an unknown word counts
    as off.
    """
    if asked is None or asked == "":
        return site
    try:
        wanted = Mode(asked)
    except ValueError:
        return Mode.OFF
    return _ORDER[min(_ORDER.index(site), _ORDER.index(wanted))]


def request(
    job: SubmittedJob,
    chosen: NamedWorkload,
    *,
    auto_queue: str | None,
    own_queues: Mapping[str | None, OwnQueue] = NO_QUEUES,
) -> Request:
    """Return the submit protocol's job as a policy's Request.

    ``auto_queue`` is the queue whose jobs Berth places; ``own_queues`` says what a job gets that
    is left in a queue.
    """
    queue = job.queue or None
    wants = queue is not None and queue == auto_queue
    nodes = job.nodes or 0
    tasks, cpus = shape(job)
    gpus = job.gpus or gpus_in(job.gres) * max(1, nodes)
    memory, memory_form = _memory(job, nodes, tasks, cpus, gpus)
    array = task_array(job.array) if job.array else None
    if array is not None and chosen.sizes:
        array = replace(array, sizes=chosen.sizes)
    reserved = ("reservation",) if job.reservation else ()
    return Request(
        user=job.user or (f"uid:{job.uid}" if job.uid is not None else ""),
        account=account(job),
        resources=Resources(nodes, tasks, cpus, gpus, memory),
        queue=queue,
        wants_placement=wants,
        pinned=tuple(sorted({*(job.pinned or ()), *reserved})),
        features=job.features or None,
        gres=job.gres or None,
        qos=job.qos or None,
        time_limit_s=time_limit_s(job),
        workload=chosen.workload,
        size=chosen.size,
        opted_out=chosen.opted_out,
        array=array,
        allowed_queues=None if job.queues is None else frozenset(job.queues),
        needs=Demands(
            tasks_per_node=job.tasks_per_node or None,
            max_nodes=job.max_nodes or 0,
            min_cores_per_node=job.min_cpus_per_node or 0,
            memory_form=memory_form,
            all_memory=job.memory_mib_per_node == 0,
            exclusive=bool(job.exclusive),
            cores_per_gpu=job.cpus_per_gpu or 0,
            prefer=job.prefer or None,
            finish_within_s=None if chosen.problem else _deadline_s(job),
            never_requeue=job.requeue == 0,
        ),
        own=own_queues.get(queue) if wants or queue is None else None,
        component=job.het,
        scheduler_since_s=job.scheduler_since_s,
    )


def account(job: SubmittedJob) -> str | None:
    """Return the account that is charged: the job's own, or else the user's default; None: neither
    known.
    """
    return job.account or job.default_account or None


def uses_gpus(job: SubmittedJob) -> bool:
    """Return whether the job asks for GPUs."""
    return bool(job.gpus) or gpus_in(job.gres) > 0


def gpus_in(gres: str | None) -> int:
    """Return the GPUs per node in a gres text such as ``gpu:2``, ``gres:gpu:a100:2``,
    ``gres/gpu=2`` or ``gpu``; 0: none.
    """
    if not gres or "gpu" not in gres:
        return 0
    matches = (_GPU.fullmatch(part.strip()) for part in gres.split(","))
    return sum(int(match[1] or 1) for match in matches if match is not None)


def task_array(indices: str | None) -> TaskArray | None:
    """Return the job array that an index text such as ``0-9:2,15%4`` describes; None: fewer than
    two tasks, or unreadable.
    """
    tasks = sum(map(len, _ranges(indices or "")))
    if tasks < 2:
        return None
    at_once = whole_number((indices or "").partition("%")[2].strip())
    return TaskArray(tasks, at_once or None)


def _ranges(indices: str) -> list[range]:
    """Return the index ranges in a job array's text, by first index; empty: unreadable."""
    ranges = []
    for part in indices.partition("%")[0].split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return []
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        ranges.append(range(first, last + 1, max(1, step)))
    return sorted(ranges, key=lambda indices: indices.start)


def shape(job: SubmittedJob) -> tuple[int, int]:
    """Return the job's total number of tasks, and the cores per task."""
    tasks = job.tasks or max(1, job.nodes or 0) * (job.tasks_per_node or 1)
    return tasks, job.cpus_per_task or 1


def time_limit_s(job: SubmittedJob) -> float | None:
    """Return the job's time limit in seconds; None: the queue's default applies."""
    if job.time_limit_s:
        return float(job.time_limit_s)
    return 60.0 * job.time_limit_min if job.time_limit_min else None


def _deadline_s(job: SubmittedJob) -> float | None:
    """Return the deadline in seconds from submission; None: the job names none. Raises ValueError
    with a message for the user.
    """
    if not job.comment or DEADLINE not in job.comment:
        return None
    match = _DEADLINE.search(job.comment)
    if match is None:
        return None
    option = f"--comment={DEADLINE}{match[1][:40]}"
    try:
        within_s = parse_duration_s(match[1])
    except ValueError as error:
        raise ValueError(f"{option} {error}.") from None
    if within_s <= 0:
        raise ValueError(f"{option} is over at once.")
    return within_s


def _memory(
    job: SubmittedJob, nodes: int, tasks: int, cpus: int, gpus: int
) -> tuple[int | None, MemoryForm | None]:
    """Return the requested bytes per node, and whether they were requested per node, core or GPU.

    If several are set, the first of these counts.
    """
    if job.memory_mib_per_node:
        return job.memory_mib_per_node * _MIB, MemoryForm.NODE
    if job.memory_mib_per_cpu:
        by_core = job.memory_mib_per_cpu * _MIB
        return by_core * cpus * -(-tasks // max(1, nodes)), MemoryForm.CORE
    if job.memory_mib_per_gpu:
        by_gpu = job.memory_mib_per_gpu * _MIB
        return by_gpu * -(-gpus // max(1, nodes)) if gpus else None, MemoryForm.GPU
    return None, None
