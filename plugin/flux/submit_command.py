"""Builds the ``flux`` command for a request and a decision's changes to it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from berth.pilot.errors import SchedulerError
from berth.plugin.daemon.requests import gpus_in
from berth.plugin.flux.frobnicator import ANONYMOUS
from berth.plugin.scheduler import Job, NodeJob, WorkersJob
from berth.policies.values import Edit, Request, Resources


def gpus_per_task(request: Request, edit: Edit) -> int:
    """Return the number of GPUs per task, which Flux requires to be equal for all tasks. Raises
    SchedulerError where the GPUs cannot be divided equally.
    """
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
    """Return the command that submits ``job``: the request's options, with those of ``edit``
    replaced.

    Scripts are submitted by ``flux batch``, other commands by ``flux submit``. Flux can request
    neither memory nor a QOS: memory is left out, a QOS raises SchedulerError.
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
        "setattr": workload_attribute(job),
    }
    return ("flux", "batch" if job.is_script else "submit", *_words(options), *job.words)


def _words(options: Mapping[str, object]) -> list[str]:
    """Return options as words of a command; those that are None are left out."""
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def _batch_options(job: NodeJob | WorkersJob) -> dict[str, object]:
    return {
        "job-name": job.name,
        "queue": None if job.queue == ANONYMOUS else job.queue,
        "time-limit": f"{math.ceil(job.time_limit_s)}s",
        "bank": job.account,
        "setattr": "user.berth.mode=off",
    }


def node_batch(job: NodeJob) -> tuple[str, ...]:
    """Return the ``flux batch`` command for a script that runs exclusively on one named node, or on
    two.
    """
    nodes = [job.node, *([job.second_node] if job.second_node else [])]
    options = _batch_options(job) | {"requires": f"host:{','.join(nodes)}", "output": job.output}
    return ("flux", "batch", f"-N{len(nodes)}", "--exclusive", *_words(options), str(job.script))


def workers_batches(job: WorkersJob) -> tuple[tuple[str, ...], ...]:
    """Return one ``flux batch`` command per copy of a worker script."""
    words = _words(_batch_options(job))
    return tuple(
        (
            "flux", "batch", "-n1", f"-c{job.cores}", *words,
            f"--output={job.output / f'worker-{index}.log'}", str(job.script),
        )
        for index in range(1, job.count + 1)
    )  # fmt: skip


def nodes_of(request: Request, edit: Edit, held: Resources) -> int:
    """Return the number of nodes to request; 0: Flux chooses (one task always runs on one node)."""
    named = "nodes" in request.pinned or edit.resources is not None
    if not named or (held.tasks == 1 and held.nodes <= 1) or held.tasks % max(1, held.nodes):
        return 0
    return held.nodes


def workload_attribute(job: Job) -> str | None:
    """Return ``user.berth.workload=NAME``, quoted where Flux would read it as a number; None: the
    job names no workload.
    """
    mark, _, name = (job.comment or "").partition(":")
    if mark != "berth" or not name:
        return None
    try:
        value = name if isinstance(json.loads(name), str) else json.dumps(name)
    except ValueError:
        value = name
    return f"user.berth.workload={value}"
