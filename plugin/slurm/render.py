"""Builds ``sbatch`` commands from a request and the changes that a decision makes to it."""

from __future__ import annotations

import math
import shlex

from berth.plugin.scheduler import Job, NodeJob, WorkersJob
from berth.policies.values import Edit, Request

_MIB = 2**20


def sbatch(job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
    """Return the ``sbatch`` command for ``job``: the request's options, with those of ``edit``
    replaced.

    A command that is not a script is passed in ``--wrap``, under ``srun`` where it has several
    tasks.
    """
    edit = edit or Edit()
    held = edit.resources or request.resources
    says_nodes = "nodes" in request.pinned or edit.resources is not None
    options = {
        "partition": edit.queue or request.queue,
        "constraint": edit.constraint or request.features,
        "gres": edit.gres or request.gres,
        "nodes": held.nodes if says_nodes else None,
        "ntasks": held.tasks,
        "cpus-per-task": held.cpus_per_task,
        "mem": None
        if held.memory_bytes_per_node is None
        else f"{math.ceil(held.memory_bytes_per_node / _MIB)}M",
        "time": _minutes(edit.time_limit_s or request.time_limit_s),
        "account": request.account,
        "qos": request.qos,
        "comment": job.comment,
    }
    if options["gres"] is None and held.gpus:
        options["gpus"] = held.gpus
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    if job.is_script:
        return ("sbatch", *words, *job.words)
    command = shlex.join(job.words)
    if held.tasks > 1:
        command = f"srun {command}"
    return ("sbatch", *words, f"--wrap={command}")


def node_sbatch(job: NodeJob) -> tuple[str, ...]:
    """Return the ``sbatch`` command for a script that runs exclusively on one named node, or on
    two.
    """
    nodes = [job.node, *([job.second_node] if job.second_node else [])]
    options = {
        "job-name": job.name,
        "comment": "berth:off",
        "partition": job.queue,
        "nodelist": ",".join(nodes),
        "nodes": len(nodes),
        "gres": job.gres,
        "time": _minutes(job.time_limit_s),
        "account": job.account,
        "qos": job.qos,
        "output": job.output,
    }
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return ("sbatch", "--exclusive", "--no-requeue", *words, str(job.script))


def workers_sbatch(job: WorkersJob) -> tuple[str, ...]:
    """Return the ``sbatch`` command for a job array that runs copies of one script."""
    options = {
        "job-name": job.name,
        "comment": "berth:off",
        "array": f"1-{job.count}",
        "partition": job.queue,
        "ntasks": 1,
        "cpus-per-task": job.cores,
        "time": _minutes(job.time_limit_s),
        "account": job.account,
        "qos": job.qos,
        "output": job.output / "worker-%a.log",
    }
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return ("sbatch", "--requeue", *words, str(job.script))


def _minutes(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds / 60)
