"""Facts of a small cluster, of which tests change what they are about."""

from __future__ import annotations

from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.predictor.hardware import platforms

KNOWN = platforms.shipped()


def node(name: str = "n1", **changes: object) -> NodeFacts:
    """Return a node with 32 idle cores in the queue `batch`."""
    values: dict[str, object] = {
        "name": name,
        "queues": ("batch",),
        "usable": True,
        "cores": 32,
        "idle_cores": 32,
        "memory_bytes": 128 * 2**30,
    }
    return NodeFacts(**{**values, **changes})  # type: ignore[arg-type]


def cluster(*nodes: NodeFacts, queues: tuple[str, ...] = ("batch",)) -> ClusterFacts:
    """Return a cluster of these nodes; the first queue is the default."""
    facts = {q: QueueFacts(q, up=True, is_default=i == 0) for i, q in enumerate(queues)}
    return ClusterFacts("c", "v", 0.0, facts, nodes)
