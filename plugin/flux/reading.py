"""Reads a Flux instance by its services."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import commands
from berth.plugin.flux.banks import banks_of
from berth.plugin.flux.frobnicator import ANONYMOUS, Queue, at
from berth.plugin.flux.present_jobs import HELD
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.scheduler.host_lists import hostlist, idset

GPU = "gpu"
"""Flux counts GPUs and slices under this one name."""
_PENDING = ("priority", "sched")
"""States of jobs that wait for their turn or for room, or are held."""


def read_cluster(
    *,
    memory: bool = False,
    banks: bool = False,
    timeout_s: float = commands.DEFAULT_TIMEOUT_S,
) -> ClusterFacts:
    """Queues and nodes as they are now; ``memory``: also how much each node has (slower);
    ``banks``: also what flux-accounting allows."""
    now_s = time.time()
    more = ("banks",) if banks else ()
    answers = commands.ask("memory" if memory else "state", *more, timeout_s=timeout_s)
    return parse_cluster(answers, as_of_s=now_s)


def parse_cluster(answers: Mapping[str, Any], *, as_of_s: float) -> ClusterFacts:
    """From the services' answers. Raises SchedulerError where they are not what Flux gives."""
    try:
        return _cluster(answers, as_of_s)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SchedulerError(
            f"Flux answered something unreadable: {type(error).__name__} {error}"[:200]
        ) from None


def _cluster(answers: Mapping[str, Any], as_of_s: float) -> ClusterFacts:
    config = _answer(answers, "config.get")
    resources = _answer(answers, "resource.sched-status")
    requires = {
        name: frozenset(table.get("requires", ()))
        for name, table in (config.get("queues") or {ANONYMOUS: {}}).items()
    }
    nodes = _nodes(resources, requires, answers.get("memory") or {})
    if not nodes:
        raise SchedulerError("Flux has no nodes")
    return ClusterFacts(
        name=str(answers.get("host") or "flux")[:64].partition("[")[0] or "flux",
        version=f"flux {answers.get('version', '')}"[:64].strip(),
        as_of_s=as_of_s,
        queues={name: _queue(name, answers, config) for name in requires},
        nodes=nodes,
        owner=answers.get("owner"),
        rights=banks_of(answers["banks"]) if "banks" in answers else None,
    )


def _answer(answers: Mapping[str, Any], topic: str) -> dict[str, Any]:
    found = answers[topic]
    if not isinstance(found, dict) or "error" in found:
        raise SchedulerError(f"Flux's {topic} failed: {at(found, 'error')}"[:200])
    return found


def _queue(name: str, answers: Mapping[str, Any], config: Mapping[str, Any]) -> QueueFacts:
    status = answers["job-manager.queue-status"]["" if name == ANONYMOUS else name]
    policy = Queue(config, name)
    default = at(config, "policy", "jobspec", "defaults", "system", "queue")
    closed = None
    if status.get("enable") is not True:
        closed = "disabled: takes no jobs"
    elif status.get("start") is not True:
        closed = "stopped: takes jobs and starts none"
    return QueueFacts(
        name=name,
        up=closed is None,
        closed=closed,
        is_default=name in (default, ANONYMOUS),
        max_time_s=policy.longest_s,
        default_time_s=policy.default_s,
        pending_jobs=max(
            0,
            _pending(name, answers.get("job-list.job-stats") or {})
            - _held(name, answers.get("job-list.list") or {}),
        ),
    )


def _pending(name: str, stats: Mapping[str, Any]) -> int:
    by_name = {queue.get("name"): queue for queue in stats.get("queues", ())}
    states = (stats if name == ANONYMOUS else by_name.get(name, {})).get("job_states", {})
    return sum(int(states.get(state, 0)) for state in _PENDING)


def _held(name: str, listed: Mapping[str, Any]) -> int:
    """Of the jobs that are looked at one by one; an older Flux may not list them so."""
    return sum(
        job.get("urgency") == HELD and (job.get("queue") or ANONYMOUS) == name
        for job in listed.get("jobs", ())
    )


def _nodes(
    resources: Mapping[str, Any],
    requires: Mapping[str, frozenset[str]],
    memory: Mapping[str, Any],
) -> tuple[NodeFacts, ...]:
    everything, allocated = _by_rank(resources["all"]), _by_rank(resources["allocated"])
    down = _by_rank(resources["down"])
    names = [n for text in resources["all"]["execution"]["nodelist"] for n in hostlist(text)]
    features = _properties(resources["all"])
    found = []
    for rank, name in zip(sorted(everything), names, strict=True):
        mine, used = everything[rank], allocated.get(rank, {})
        own = tuple(sorted(features.get(rank, ())))
        gpus = len(mine.get("gpu", ()))
        size = memory.get(str(rank)) or {}
        found.append(
            NodeFacts(
                name=name,
                queues=tuple(q for q, needed in requires.items() if needed <= set(own)),
                usable=rank not in down,
                cores=len(mine.get("core", ())),
                idle_cores=len(mine.get("core", set()) - used.get("core", set())),
                memory_bytes=int(size.get("bytes") or 0),
                architecture=str(size.get("architecture") or "x86_64"),
                features=own,
                gpus={GPU: gpus} if gpus else {},
                idle_gpus={GPU: len(mine["gpu"] - used.get("gpu", set()))} if gpus else {},
            )
        )
    return tuple(found)


def _by_rank(resource_set: Mapping[str, Any]) -> dict[int, dict[str, set[int]]]:
    """Cores and GPUs of a resource set (RFC 20) by rank."""
    found: dict[int, dict[str, set[int]]] = {}
    for entry in resource_set["execution"]["R_lite"]:
        children = {kind: set(idset(ids)) for kind, ids in entry["children"].items()}
        for rank in idset(entry["rank"]):
            here = found.setdefault(rank, {})
            for kind, ids in children.items():
                here[kind] = here.get(kind, set()) | ids
    return found


def _properties(resource_set: Mapping[str, Any]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, where in (resource_set["execution"].get("properties") or {}).items():
        for rank in idset(where):
            found.setdefault(rank, []).append(name)
    return found
