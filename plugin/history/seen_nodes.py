"""Reads the site's nodes, remembers them in the store, and tells by them where past jobs ran.

The store also holds nodes that were removed or renamed since, as they were last seen, so that jobs
which ran there still count.
"""

from __future__ import annotations

import json
from contextlib import suppress

from berth.pilot.errors import BerthError
from berth.plugin.scheduler.facts import NodeFacts
from berth.plugin.scheduler.node_kinds import NodeKinds
from berth.plugin.scheduler.protocol import Scheduler
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.store.records import NodeRecord


def read_nodes(store: Store, site: Site, scheduler: Scheduler, now_s: float) -> None:
    """Store the scheduler's nodes as they are now. Raises SchedulerError and ToolMissing."""
    nodes = scheduler.read(full=False).nodes
    store.nodes.put([_record(site.name, node, now_s) for node in nodes])


def node_kinds(store: Store, site: Site) -> NodeKinds:
    """Return the candidates of every node that is stored for the site."""
    nodes = map(_facts, store.nodes.of_cluster(site.name))
    return NodeKinds({node.name: node for node in nodes}, site.candidates)


def present_node_kinds(store: Store, site: Site, scheduler: Scheduler, now_s: float) -> NodeKinds:
    """Return the candidates of every node, read anew where the scheduler answers here."""
    with suppress(BerthError):
        read_nodes(store, site, scheduler, now_s)
    return node_kinds(store, site)


def _record(cluster: str, node: NodeFacts, now_s: float) -> NodeRecord:
    return NodeRecord(
        cluster=cluster,
        name=node.name[:255],
        queues=json.dumps(node.queues),
        features=json.dumps(node.features),
        gpus=json.dumps(dict(node.gpus)),
        seen_s=now_s,
    )


def _facts(record: NodeRecord) -> NodeFacts:
    """Return a stored node with what tells its kind; its present state is not stored."""
    return NodeFacts(
        name=record.name,
        queues=tuple(json.loads(record.queues)),
        usable=False,
        cores=0,
        idle_cores=0,
        memory_bytes=0,
        features=tuple(json.loads(record.features)),
        gpus=json.loads(record.gpus),
    )
