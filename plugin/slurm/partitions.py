"""What a partition means for its jobs: billing, interruption by other jobs, the auto partition.

Sources: manual pages slurm.conf(5) (``TRESBillingWeights``, ``PreemptMode``, ``PriorityTier``) and
sacctmgr(1) (``Preempt``), Slurm 22.05 to 25.11.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.scheduler.host_lists import compressed
from berth.plugin.slurm.records import Record, whole

_MIB_OF = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}


def billing_weights(text: str) -> tuple[tuple[str, float], ...]:
    """Return the weights in ``CPU=1.0,Mem=0.25G,GRES/gpu=2.0`` by resource, memory by MiB.

    A weight that cannot be read counts as infinite: such a partition bills more than any other.
    """
    weights = []
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        name = name.strip().lower()
        unit = amount[-1:].upper()
        per = _MIB_OF.get(unit, 1.0)
        try:
            number = float(amount[:-1] if unit in _MIB_OF else amount)
        except ValueError:
            number, per = float("inf"), 1.0
        weights.append((name, number / per if name == "mem" else number))
    return tuple(weights)


def jobs_per_core(text: str) -> int:
    """Return how many jobs share a core whatever they ask for (``OverSubscribe=FORCE:2``); 0: a
    job that asks for whole nodes gets them."""
    word, _, count = text.partition(":")
    return int(count) if word == "FORCE" and count.isdigit() else 4 * (word == "FORCE")


def gives_whole_nodes(record: Record) -> bool:
    """Return whether a partition allocates whole nodes: ``OverSubscribe=EXCLUSIVE``, which Slurm
    26.05 prints as ``Exclusive=NODE``."""
    whole = record.get("OverSubscribe", "").startswith("EXCLUSIVE")
    return whole or record.get("Exclusive") == "NODE"


def keeps_others_away(record: Record) -> bool:
    """Return whether other users' jobs never share a job's nodes: ``ExclusiveUser=YES`` or
    ``ExclusiveTopo=YES``, which Slurm 26.05 prints as ``Exclusive=USER`` and ``TOPO``."""
    written = (record.get("ExclusiveUser"), record.get("ExclusiveTopo"))
    return "YES" in written or record.get("Exclusive") in ("USER", "TOPO")


def with_preemption(
    queues: Sequence[QueueFacts],
    records: Sequence[Record],
    nodes: Sequence[NodeFacts],
    settings: Mapping[str, str],
) -> dict[str, QueueFacts]:
    """Return the queues by name, with the reason where jobs of partitions with a higher
    ``PriorityTier`` may interrupt theirs (``PreemptType=preempt/partition_prio``).
    """
    found = {queue.name: queue for queue in queues}
    if not settings.get("PreemptType", "").endswith("partition_prio"):
        return found
    tiers = {r["PartitionName"]: whole(r, "PriorityTier", 1) for r in records}
    sharing: dict[str, set[str]] = {}
    for node in nodes:
        for name in node.queues:
            sharing.setdefault(name, set()).update(node.queues)
    above: dict[str, tuple[str, int]] = {}
    for record in records:
        name = record["PartitionName"]
        mode = record.get("PreemptMode") or settings.get("PreemptMode", "OFF")
        if "OFF" in mode.upper().split(","):
            continue
        others = sorted(sharing.get(name, ()))
        first = next((n for n in others if tiers.get(n, 0) > tiers[name]), None)
        if first is not None:
            harm = max(_HARM.get(word, 1) for word in mode.upper().split(","))
            above[name] = first, harm
    for name, (other, harm) in above.items():
        found[name] = interrupted(found[name], f"jobs of {other} may interrupt its jobs", harm)
    return found


_HARM = {"REQUEUE": 2, "CANCEL": 3}
"""``QueueBounds.interruption`` by ``PreemptMode``; others suspend."""


def interrupted(queue: QueueFacts, reason: str, harm: int = 3) -> QueueFacts:
    """Return the queue with the reason why other jobs may interrupt its jobs, and how."""
    return replace(queue, bounds=replace(queue.bounds, preemptible=reason, interruption=harm))


def preempted_by_qos(
    queues: Mapping[str, QueueFacts], preempted: Collection[str]
) -> dict[str, QueueFacts]:
    """Return the queues, with the reason where jobs of another QOS may interrupt jobs of the
    partition's QOS; ``preempted``: the QOS that others name in ``Preempt``."""
    return {
        name: interrupted(queue, f"jobs of another QOS may interrupt those of {queue.qos}")
        if queue.qos in preempted
        else queue
        for name, queue in queues.items()
    }


def auto_partition_line(name: str, like: str, facts: ClusterFacts) -> str:
    """Return the slurm.conf line of a partition with the nodes of all partitions for users.

    Its default memory is the smallest of theirs and its priority the lowest, so that none gives a
    job less than this one; default time limit and billing are those of partition ``like``.
    """
    queues = [queue for queue in facts.queues.values() if queue.not_for_users is None]
    names = {queue.name for queue in queues}
    inside = compressed(node.name for node in facts.nodes if names.intersection(node.queues))
    words = [f"PartitionName={name} Nodes={inside}"]
    defaults = [queue.bounds.default_memory_bytes_per_core for queue in queues]
    if queues and all(defaults):
        words.append(f"DefMemPerCPU={min(filter(None, defaults)) // 2**20}")
    own = facts.queues.get(like)
    limit_s = None if own is None else own.default_time_s or own.max_time_s
    if limit_s is not None:
        words.append(f"DefaultTime={int(limit_s // 60)}")
    if own is not None and own.bounds.billing_weights:
        weights = (
            f"Mem={weight * 1024:g}G" if name == "mem" else f"{name.upper()}={weight:g}"
            for name, weight in own.bounds.billing_weights
        )
        words.append(f'TRESBillingWeights="{",".join(weights)}"')
    if queues and all(queue.bounds.exclusive for queue in queues):
        words.append("OverSubscribe=EXCLUSIVE")
    tier = min((queue.bounds.priority_tier for queue in queues), default=1)
    if tier != 1:
        words.append(f"PriorityTier={tier}")
    return " ".join([*words, "State=UP"])
