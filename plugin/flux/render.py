"""From a request and its edit to a ``flux submit`` or ``flux batch`` command."""

from __future__ import annotations

import json
import math

from berth.pilot.errors import SchedulerError
from berth.plugin.daemon.requests import gpus_in
from berth.plugin.flux.frobnicator import ANONYMOUS
from berth.plugin.scheduler import Job, NodeJob, WorkersJob
from berth.policies.values import Edit, Request, Resources


def gpus_per_task(request: Request, edit: Edit) -> int:
    """Flux gives GPUs by task. Raises SchedulerError where they cannot be given alike."""
    held = edit.resources or request.resources
    by_node = gpus_in(edit.gres or request.gres)
    gpus = by_node * max(1, held.nodes) if by_node else held.gpus
    if gpus % held.tasks:
        raise SchedulerError(
            f"Flux gives each task as many GPUs: {gpus} cannot be shared by {held.tasks} tasks",
            hint="ask for as many tasks as GPUs: --tasks",
        )
    return gpus // held.tasks


def flux_submit(job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
    """The command of ``job``: what was asked, with ``edit`` put in. Scripts go by `flux batch`.

    Flux has no memory to ask for and no QOS: the former is left out, the latter refused.
    """
    edit = edit or Edit()
    held = edit.resources or request.resources
    if request.qos is not None:
        raise SchedulerError("Flux knows no QOS", hint="leave --qos out")
    queue = edit.queue or request.queue
    limit_s = edit.time_limit_s or request.time_limit_s
    requires = edit.constraint or request.features
    gpus = gpus_per_task(request, edit)
    options = {
        "queue": None if queue == ANONYMOUS else queue,
        "requires": requires,
        "nodes": nodes_of(request, edit, held) or None,
        ("nslots" if job.is_script else "ntasks"): held.tasks,
        ("cores-per-slot" if job.is_script else "cores-per-task"): held.cpus_per_task,
        ("gpus-per-slot" if job.is_script else "gpus-per-task"): gpus or None,
        "time-limit": None if limit_s is None else f"{math.ceil(limit_s)}s",
        "bank": request.account,
        "setattr": profile_attribute(job),
    }
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return ("flux", "batch" if job.is_script else "submit", *words, *job.words)


def node_batch(job: NodeJob) -> tuple[str, ...]:
    """The ``flux batch`` command of a script that has one node, or two, for itself."""
    nodes = [job.node, *([job.second_node] if job.second_node else [])]
    options = {
        "job-name": job.name,
        "queue": None if job.queue == ANONYMOUS else job.queue,
        "requires": f"host:{','.join(nodes)}",
        "time-limit": f"{math.ceil(job.time_limit_s)}s",
        "bank": job.account,
        "output": job.output,
        "setattr": "user.berth.mode=off",
    }
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return ("flux", "batch", f"-N{len(nodes)}", "--exclusive", *words, str(job.script))


def workers_batches(job: WorkersJob) -> tuple[tuple[str, ...], ...]:
    """A ``flux batch`` command for each copy."""
    options = {
        "job-name": job.name,
        "queue": None if job.queue == ANONYMOUS else job.queue,
        "time-limit": f"{math.ceil(job.time_limit_s)}s",
        "bank": job.account,
        "setattr": "user.berth.mode=off",
    }
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return tuple(
        (
            "flux", "batch", "-n1", f"-c{job.cores}", *words,
            f"--output={job.output / f'worker-{index}.log'}", str(job.script),
        )
        for index in range(1, job.count + 1)
    )  # fmt: skip


def nodes_of(request: Request, edit: Edit, held: Resources) -> int:
    """Nodes to name; 0: let Flux choose (one task is on one node without saying so)."""
    named = "nodes" in request.pinned or edit.resources is not None
    if not named or (held.tasks == 1 and held.nodes <= 1) or held.tasks % max(1, held.nodes):
        return 0
    return held.nodes


def profile_attribute(job: Job) -> str | None:
    """``user.berth.workload=NAME``, quoted where Flux would read it as a number."""
    mark, _, name = (job.comment or "").partition(":")
    if mark != "berth" or not name:
        return None
    try:
        value = name if isinstance(json.loads(name), str) else json.dumps(name)
    except ValueError:
        value = name
    return f"user.berth.workload={value}"
