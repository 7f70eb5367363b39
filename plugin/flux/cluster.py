"""Reads a Flux instance from its services: queues, nodes, and which users may use which queue.

flux-accounting refuses a job at submission, and a change of queue, where the user's association
with the bank does not list the queue. Its plugin ``mf_priority`` does not report which bank is a
user's default: a job that names no bank is sent only to queues that all banks of its user allow.
"""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import ANONYMOUS, ConfiguredQueue, value_at
from berth.plugin.flux.present_jobs import HELD
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.scheduler.host_lists import hostlist, idset
from berth.plugin.usernames import UserNumbers
from berth.policies.limits import Denied, Limit, Scope
from berth.policies.values import QueueBounds

PLUGIN = "mf_priority.so"
_NUMBERS = UserNumbers()
"""Looks user ids up in a thread of its own, because the daemon's answering thread must not wait."""
_UNLIMITED = 2**31 - 1
_OF_BANK = (("max_nodes", "node"), ("max_cores", "cpu"))
_OF_QUEUE = (
    ("max_nodes_per_assoc", "node"),
    ("max_sched_nodes_per_assoc", "node"),
    ("max_sched_cores_per_assoc", "cpu"),
)


class Banks:
    """The banks, users and queues of flux-accounting, as read at one moment."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """Parse the answer of ``flux jobtap query mf_priority.so``.

        Raises ValueError, LookupError, TypeError or AttributeError for an unexpected answer.
        """
        self._queues = {
            str(name): _limits(queue, _OF_QUEUE, f"queue {name}")
            for name, queue in answer["queues"].items()
        }
        self._banks = {
            int(user["userid"]): {
                str(bank["bank_name"]): (
                    frozenset(map(str, bank["queues"])),
                    _limits(bank, _OF_BANK, f"bank {bank['bank_name']}"),
                )
                for bank in user["banks"]
                if bank["active"]
            }
            for user in answer["mf_priority_map"]
        }
        held = sorted(
            (uid, name, sorted(queues), limits)
            for uid, banks in self._banks.items()
            for name, (queues, limits) in banks.items()
        )
        text = repr((sorted(self._queues.items()), held))
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        """Return the limits of a user's jobs in a queue, or a denial with its reason (see Rights).

        ``account`` is the bank; flux-accounting has no QOS.
        """
        uid = _uid(user)
        if uid is None:
            return Denied(f"the number of user {user} is not known yet")
        banks = self._banks.get(uid, {})
        if account is not None:
            banks = {name: bank for name, bank in banks.items() if name == account}
        if not banks:
            bank_text = "bank" if account is None else f"bank {account}"
            return Denied(f"flux-accounting has no {bank_text} of {user}")
        if not self._queues:  # flux-accounting has no queues at all
            return tuple(limit for _, limits in banks.values() for limit in limits)
        if queue not in self._queues:
            return Denied(f"flux-accounting does not know the queue {queue}")
        for name, (queues, _) in banks.items():
            if queue not in queues:
                return Denied(f"bank {name} of {user} may not use {queue}")
        own = (limit for _, limits in banks.values() for limit in limits)
        return (*own, *self._queues[queue])


def banks_of(answer: Mapping[str, Any]) -> Banks | None:
    """Return the banks in the plugin's answer; None: the plugin is not loaded, or only the
    instance's owner may query it.

    Raises SchedulerError for an unexpected answer.
    """
    if answer.get("errno") == errno.EPERM or "plugin not found" in str(answer.get("error")):
        return None
    try:
        return Banks(answer)
    except commands.UNEXPECTED:
        raise SchedulerError(
            f"{PLUGIN} answered something unreadable: {json.dumps(answer)[:80]}"
        ) from None


def _limits(
    held: Mapping[str, Any], of: tuple[tuple[str, str], ...], source: str
) -> tuple[Limit, ...]:
    return tuple(
        Limit(Scope.JOB, float(held[key]), source, resource)
        for key, resource in of
        if int(held.get(key, _UNLIMITED)) < _UNLIMITED
    )


def _uid(user: str) -> int | None:
    """Return the user's id; None: the lookup has not finished yet."""
    if user.startswith("uid:") and user[4:].isdecimal():
        return int(user[4:])
    return _NUMBERS.of(user)


GPU = "gpu"
"""The name under which Flux counts GPUs and MIG slices alike."""
_PENDING = ("priority", "sched")
"""States of jobs that wait for their turn or for free resources, or are held."""


def read_cluster(
    *,
    memory: bool = False,
    banks: bool = False,
    timeout_s: float = commands.DEFAULT_TIMEOUT_S,
) -> ClusterFacts:
    """Read queues and nodes as they are now.

    ``memory``: also each node's memory, which is slower; ``banks``: also flux-accounting's limits.
    Raises SchedulerError or ToolMissing.
    """
    now_s = time.time()
    more = ("banks",) if banks else ()
    answers = commands.ask("memory" if memory else "state", *more, timeout_s=timeout_s)
    return parse_cluster(answers, as_of_s=now_s)


def parse_cluster(answers: Mapping[str, Any], *, as_of_s: float) -> ClusterFacts:
    """Parse the answers of Flux's services. Raises SchedulerError where an answer is unexpected."""
    try:
        return _cluster(answers, as_of_s)
    except commands.UNEXPECTED as error:
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
    nodes = _node_facts(resources, requires, answers.get("memory") or {})
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
    answer = answers[topic]
    if not isinstance(answer, dict) or "error" in answer:
        raise SchedulerError(f"Flux's {topic} failed: {value_at(answer, 'error')}"[:200])
    return answer


def _queue(name: str, answers: Mapping[str, Any], config: Mapping[str, Any]) -> QueueFacts:
    status = answers["job-manager.queue-status"]["" if name == ANONYMOUS else name]
    policy = ConfiguredQueue(config, name)
    default = value_at(config, "policy", "jobspec", "defaults", "system", "queue")
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
        bounds=QueueBounds(max_time_s=policy.longest_s, default_time_s=policy.default_s),
    )


def _pending(name: str, stats: Mapping[str, Any]) -> int:
    by_name = {queue.get("name"): queue for queue in stats.get("queues", ())}
    states = (stats if name == ANONYMOUS else by_name.get(name, {})).get("job_states", {})
    return sum(int(states.get(state, 0)) for state in _PENDING)


def _held(name: str, listed: Mapping[str, Any]) -> int:
    """Return the number of held jobs in the queue among those that Flux lists one by one (older
    versions of Flux may list none).
    """
    return sum(
        job.get("urgency") == HELD and (job.get("queue") or ANONYMOUS) == name
        for job in listed.get("jobs", ())
    )


def _node_facts(
    resources: Mapping[str, Any],
    requires: Mapping[str, frozenset[str]],
    memory: Mapping[str, Any],
) -> tuple[NodeFacts, ...]:
    everything, allocated = _by_rank(resources["all"]), _by_rank(resources["allocated"])
    down = _by_rank(resources["down"])
    names = [n for text in resources["all"]["execution"]["nodelist"] for n in hostlist(text)]
    features = _properties(resources["all"])
    facts = []
    for rank, name in zip(sorted(everything), names, strict=True):
        resources_of_rank, used = everything[rank], allocated.get(rank, {})
        own = tuple(sorted(features.get(rank, ())))
        gpus = len(resources_of_rank.get("gpu", ()))
        size = memory.get(str(rank)) or {}
        facts.append(
            NodeFacts(
                name=name,
                queues=tuple(q for q, needed in requires.items() if needed <= set(own)),
                usable=rank not in down,
                cores=len(resources_of_rank.get("core", ())),
                idle_cores=len(resources_of_rank.get("core", set()) - used.get("core", set())),
                memory_bytes=int(size.get("bytes") or 0),
                architecture=str(size.get("architecture") or "x86_64"),
                features=own,
                gpus={GPU: gpus} if gpus else {},
                idle_gpus={GPU: len(resources_of_rank["gpu"] - used.get("gpu", set()))}
                if gpus
                else {},
            )
        )
    return tuple(facts)


def _by_rank(resource_set: Mapping[str, Any]) -> dict[int, dict[str, set[int]]]:
    """Return the ids of cores and GPUs in a resource set (RFC 20), by rank and resource type."""
    by_rank: dict[int, dict[str, set[int]]] = {}
    for entry in resource_set["execution"]["R_lite"]:
        children = {kind: set(idset(ids)) for kind, ids in entry["children"].items()}
        for rank in idset(entry["rank"]):
            of_rank = by_rank.setdefault(rank, {})
            for kind, ids in children.items():
                of_rank[kind] = of_rank.get(kind, set()) | ids
    return by_rank


def _properties(resource_set: Mapping[str, Any]) -> dict[int, list[str]]:
    by_rank: dict[int, list[str]] = {}
    for name, where in (resource_set["execution"].get("properties") or {}).items():
        for rank in idset(where):
            by_rank.setdefault(rank, []).append(name)
    return by_rank
