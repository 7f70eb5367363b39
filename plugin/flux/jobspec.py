"""A jobspec (version 1, RFC 25) for a request and its edit, and Flux's own validator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from berth.pilot.errors import SchedulerError, UsageError
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import ANONYMOUS
from berth.plugin.flux.render import gpus_per_task, nodes_of, profile_attribute
from berth.plugin.scheduler import Job
from berth.policies.values import Edit, Request

_SCRIPT_MODE = 0o100700
_NESTED = ["flux", "broker", "{{tmpdir}}/script"]
"""How `flux batch` starts a script: in a Flux instance of its own."""


def jobspec(job: Job, request: Request, edit: Edit | None, *, folder: Path) -> dict[str, Any]:
    """What the command of ``render`` would submit. Raises UsageError for an unreadable script."""
    edit = edit or Edit()
    system: dict[str, Any] = {
        "duration": float(edit.time_limit_s or request.time_limit_s or 0),
        "environment": {},
        "cwd": str(folder),
    }
    queue = edit.queue or request.queue
    if queue is not None and queue != ANONYMOUS:
        system["queue"] = queue
    if request.account is not None:
        system["bank"] = request.account
    requires = edit.constraint or request.features
    if requires is not None:
        system["constraints"] = {"properties": requires.split("&")}
    command = list(job.words)
    if job.is_script:
        command = [*_NESTED, *job.words[1:]]
        system.update(_of_script(Path(job.words[0])))
    attributes: dict[str, Any] = {"system": system}
    named = profile_attribute(job)
    if named is not None:
        attributes["user"] = {"berth": {"workload": (job.comment or "").partition(":")[2]}}
    return {
        "resources": _resources(request, edit),
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": attributes,
        "version": 1,
    }


def _resources(request: Request, edit: Edit) -> list[dict[str, Any]]:
    held = edit.resources or request.resources
    nodes = nodes_of(request, edit, held)
    leaves: list[dict[str, Any]] = [{"type": "core", "count": held.cpus_per_task}]
    gpus = gpus_per_task(request, edit)
    if gpus:
        leaves.append({"type": "gpu", "count": gpus})
    slots = held.tasks // max(1, nodes)
    slot = {"type": "slot", "count": slots, "with": leaves, "label": "task"}
    return [{"type": "node", "count": nodes, "with": [slot]}] if nodes else [slot]


def _of_script(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from None
    options = {"per-resource": {"type": "node"}, "mpi": "none"}
    output = {"output": {"stdout": {"type": "file", "path": "flux-{{id}}.out"}}}
    return {
        "job": {"name": path.name},
        "shell": {"options": {**options, **output}},
        "files": {"script": {"mode": _SCRIPT_MODE, "data": text, "encoding": "utf-8"}},
    }


def validate(spec: dict[str, Any]) -> None:
    """Ask `flux job-validator`. Raises SchedulerError with its words, ToolMissing without Flux."""
    answer = commands.run(
        "job-validator",
        "--jobspec-only",
        stdin=json.dumps(spec) + "\n",
        expected=(0, 1),
    )
    try:
        found = json.loads(answer)
        errnum, said = int(found["errnum"]), str(found.get("errstr", ""))
    except (ValueError, LookupError, TypeError):
        raise SchedulerError(f"flux job-validator answered {answer[:80]!r}") from None
    if errnum:
        raise SchedulerError(f"Flux refuses this jobspec: {said[:300]}")
