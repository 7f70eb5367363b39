"""From the protocol's job to a policy's Request: scheduler-neutral, nothing looked up.

``choice`` reads which workload the job names; ``request`` says what it asks for.
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
from berth.plugin.daemon.messages import Job
from berth.policies.codes import Code
from berth.policies.values import (
    DefaultMemory,
    MemoryForm,
    Mode,
    Needs,
    Request,
    Resources,
    TaskArray,
)

_MIB = 2**20
DEADLINE = "berth-deadline:"
_DEADLINE = re.compile(rf"(?:^|[\s,;]){DEADLINE}([^\s,;]*)")
_MARK = re.compile(r"(?:^|[\s,;])berth:([^\s,;]*)")
_FILE = re.compile(r"(?:^|[\s,;])berth-file:sha256-([0-9a-f]{64})(?=[\s,;]|$)")
"""As the client filter writes it in the place of the path that the user gave."""
_NAME = re.compile(
    r"((?:[^\s,;/]{1,64}/)?[A-Za-z0-9][A-Za-z0-9_.+-]{0,127})(?:@([0-9.eE+:i-]{1,4096}))?"
)
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_SIZE_BY_INDEX = re.compile(rf"(?:({_NUMBER})(?=[+-]))?([+-]?{_NUMBER})i")
"""``100+10i``: task 3 of the array has size 130."""
_MOST_SIZED_TASKS = 10_000
_MOST_SIZES = 32
"""So many different sizes of an array's tasks are told apart; a time is looked up for each."""
_GPU = re.compile(r"(?:gres[:/])?gpu(?::(?!\d+(?:\(|$))[^:,=()]+)?(?:[:=](\d{1,6}))?(?:\([^)]*\))?")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
NO_DEFAULTS: Mapping[str | None, DefaultMemory] = MappingProxyType({})
_ORDER = (Mode.OFF, Mode.SHADOW, Mode.ADVISE, Mode.ENFORCE)


class Choice(NamedTuple):
    """What the submitter said to Berth."""

    workload: str | None = None
    size: float | None = None
    opted_out: bool = False
    problem: str | None = None
    """A sentence where it could not be understood: the job is then left alone."""
    sizes: tuple[tuple[float, int], ...] = ()
    """Of an array whose tasks differ: as in TaskArray; ``size`` is the largest."""
    code: Code = Code.BAD_WORKLOAD_NAME
    """Of the problem."""
    file: str | None = None
    """Digest of a file that the job names, where it names no workload."""


def choice(job: Job) -> Choice:
    """The workload that the job names: in its comment first, else in its environment."""
    if job.mode == "off":
        return Choice(opted_out=True)
    try:
        _deadline_s(job)
    except ValueError as error:
        return Choice(problem=str(error), code=Code.BAD_DEADLINE)
    mark = _MARK.search(job.comment) if job.comment and "berth:" in job.comment else None
    if mark is not None:
        return _named(mark[1], "--comment=berth:", job.array)
    if job.workload:
        return _named(job.workload, "BERTH_WORKLOAD=", job.array)
    file = _FILE.search(job.comment) if job.comment and "berth-file:" in job.comment else None
    return Choice() if file is None else Choice(file=f"sha256:{file[1]}")


def _named(text: str, source: str, array: str | None) -> Choice:
    if text == "off":
        return Choice(opted_out=True)
    match = _NAME.fullmatch(text)
    if match is None:
        return Choice(problem=f"{source}{text[:80]} is not a workload's NAME or NAME@SIZE.")
    if match[2] is None:
        return Choice(match[1])
    try:
        if ":" not in match[2] and "i" not in match[2]:
            return Choice(match[1], _size(match[2]))
        sizes = sizes_of_tasks(match[2], array)
    except ValueError as error:
        return Choice(problem=f"{source}{text[:80]}: {error}.")
    return Choice(match[1], sizes[-1][0], sizes=sizes if len(sizes) > 1 else ())


def _size(text: str) -> float:
    """Raises ValueError with a sentence."""
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise ValueError("the size is not a positive number")
    return size


def sizes_of_tasks(text: str, indices: str | None) -> tuple[tuple[float, int], ...]:
    """The sizes of an array's tasks, ascending, and how many have each.

    ``100:250:90``: one for each task by ascending index; ``100+10i``: from the index. Of more than
    32 different sizes, neighbours are counted as the larger of them. Raises ValueError with a
    sentence.
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
        found = [start + step * index for part in ranges for index in part]
        if not all(0 < size < math.inf for size in found):
            raise ValueError("the size of a task would not be a positive number")
    elif "i" in text:
        raise ValueError("a size from the index i is written as 100+10i")
    else:
        found = [_size(one) for one in text.split(":")]
        if len(found) != tasks:
            raise ValueError(f"it names {len(found)} sizes for an array of {tasks} tasks")
    return _grouped(found)


def _grouped(sizes: list[float]) -> tuple[tuple[float, int], ...]:
    """At most ``_MOST_SIZES`` groups, each with the largest size in it."""
    counts = sorted(Counter(sizes).items())
    each = -(-len(counts) // _MOST_SIZES)
    groups = (counts[n : n + each] for n in range(0, len(counts), each))
    return tuple((group[-1][0], sum(count for _, count in group)) for group in groups)


def effective_mode(site: Mode, asked: str | None) -> Mode:
    """The lower of the site's mode and the job's own; a word that is no mode counts as off."""
    if asked is None or asked == "":
        return site
    try:
        wanted = Mode(asked)
    except ValueError:
        return Mode.OFF
    return _ORDER[min(_ORDER.index(site), _ORDER.index(wanted))]


def request(
    job: Job,
    chosen: Choice,
    *,
    auto_queue: str | None,
    default_memory: Mapping[str | None, DefaultMemory] = NO_DEFAULTS,
) -> Request:
    """Return the job as a Request.

    ``auto_queue`` is the queue whose users ask Berth to choose; ``default_memory`` is what jobs
    hold without asking for any, by queue.
    """
    queue = job.queue or None
    wants = queue is not None and queue == auto_queue
    nodes = job.nodes or 0
    tasks, cpus = shape(job)
    gpus = job.gpus or gpus_in(job.gres) * max(1, nodes)
    return Request(
        user=job.user or (f"uid:{job.uid}" if job.uid is not None else ""),
        account=account(job),
        resources=Resources(nodes, tasks, cpus, gpus, _memory(job, nodes, tasks, cpus, gpus)),
        queue=queue,
        wants_placement=wants,
        pinned=_pinned(job),
        features=job.features or None,
        gres=job.gres or None,
        qos=job.qos or None,
        time_limit_s=time_limit_s(job),
        workload=chosen.workload,
        size=chosen.size,
        opted_out=chosen.opted_out,
        array=_task_array(job.array, chosen.sizes),
        allowed_queues=None if job.queues is None else frozenset(job.queues),
        needs=Needs(
            tasks_per_node=job.tasks_per_node or None,
            max_nodes=job.max_nodes or 0,
            min_cores_per_node=job.min_cpus_per_node or 0,
            memory_form=_memory_form(job),
            all_memory=job.memory_mib_per_node == 0,
            exclusive=bool(job.exclusive),
            cores_per_gpu=job.cpus_per_gpu or 0,
            prefer=job.prefer or None,
            finish_within_s=None if chosen.problem else _deadline_s(job),
        ),
        default_memory=default_memory.get(queue) if wants or queue is None else None,
        component=job.het,
        scheduler_since_s=job.scheduler_since_s,
    )


def account(job: Job) -> str | None:
    """What it is charged to: the account that it names, else its user's default one."""
    return job.account or job.default_account or None


def gpus_in(gres: str | None) -> int:
    """GPUs a node in ``gpu:2``, ``gres:gpu:a100:2``, ``gres/gpu=2``, ``gpu``; 0: none."""
    if not gres or "gpu" not in gres:
        return 0
    found = (_GPU.fullmatch(part.strip()) for part in gres.split(","))
    return sum(int(match[1] or 1) for match in found if match is not None)


def task_array(indices: str | None) -> TaskArray | None:
    """The array that ``0-9:2,15%4`` is; None where there is none, or it cannot be read."""
    tasks = sum(map(len, _ranges(indices or "")))
    if tasks < 2:
        return None
    at_once = whole_number((indices or "").partition("%")[2].strip())
    return TaskArray(tasks, at_once or None)


def _task_array(indices: str | None, sizes: tuple[tuple[float, int], ...]) -> TaskArray | None:
    array = task_array(indices) if indices else None
    return replace(array, sizes=sizes) if array is not None and sizes else array


def _ranges(indices: str) -> list[range]:
    """The indices of an array, as its user wrote them, in ascending order; none: unreadable."""
    found = []
    for part in indices.partition("%")[0].split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return []
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        found.append(range(first, last + 1, max(1, step)))
    return sorted(found, key=lambda one: one.start)


def shape(job: Job) -> tuple[int, int]:
    """Tasks in all, and cores of each."""
    tasks = job.tasks or max(1, job.nodes or 0) * (job.tasks_per_node or 1)
    return tasks, job.cpus_per_task or 1


def time_limit_s(job: Job) -> float | None:
    """What the job asked for; None: the queue's own."""
    if job.time_limit_s:
        return float(job.time_limit_s)
    return 60.0 * job.time_limit_min if job.time_limit_min else None


def _deadline_s(job: Job) -> float | None:
    """Seconds from submission. Raises ValueError with a sentence."""
    if not job.comment or DEADLINE not in job.comment:
        return None
    found = _DEADLINE.search(job.comment)
    if found is None:
        return None
    try:
        within_s = parse_duration_s(found[1])
    except ValueError as error:
        raise ValueError(f"--comment={DEADLINE}{found[1][:40]} {error}.") from None
    if within_s <= 0:
        raise ValueError(f"--comment={DEADLINE}{found[1][:40]} is over at once.")
    return within_s


def _memory(job: Job, nodes: int, tasks: int, cpus: int, gpus: int) -> int | None:
    if job.memory_mib_per_node:
        return job.memory_mib_per_node * _MIB
    if job.memory_mib_per_cpu:
        return job.memory_mib_per_cpu * _MIB * cpus * -(-tasks // max(1, nodes))
    if job.memory_mib_per_gpu and gpus:
        return job.memory_mib_per_gpu * _MIB * -(-gpus // max(1, nodes))
    return None


def _memory_form(job: Job) -> MemoryForm | None:
    """Return how memory was asked for, in the order in which ``_memory`` reads it."""
    if job.memory_mib_per_node:
        return MemoryForm.NODE
    if job.memory_mib_per_cpu:
        return MemoryForm.CORE
    return MemoryForm.GPU if job.memory_mib_per_gpu else None


def _pinned(job: Job) -> tuple[str, ...]:
    pinned = set(job.pinned or ())
    if job.reservation:
        pinned.add("reservation")
    return tuple(sorted(pinned))
