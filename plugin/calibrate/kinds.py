"""The types of nodes of a site: a type is all candidates whose nodes have the same platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.platform import Platform
from berth.plugin.scheduler.facts import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.scheduler.states import nodes_of
from berth.plugin.site.site import Site
from berth.policies.values import Candidate


@dataclass(frozen=True, slots=True)
class CalibratedKind:
    """A node type: one platform of the site, with its candidates and their nodes."""

    platform: Platform
    candidates: tuple[Candidate, ...]
    nodes: tuple[NodeFacts, ...]
    """The nodes without duplicates, in the scheduler's order."""

    @property
    def name(self) -> str:
        """Return the name of the node type's platform."""
        return self.platform.name

    def candidates_of(
        self, nodes: Sequence[str], facts: ClusterFacts, limit_s: float
    ) -> tuple[Candidate, ...]:
        """Return the candidates through which a job with time limit ``limit_s`` can get all of
        these nodes."""
        return tuple(
            candidate
            for candidate in self.open_candidates(facts, limit_s)
            if {node.name for node in nodes_of(candidate, facts)}.issuperset(nodes)
        )

    def open_candidates(self, facts: ClusterFacts, limit_s: float) -> tuple[Candidate, ...]:
        """Return the candidates whose partition allows the time limit ``limit_s`` and starts
        jobs now."""
        queues = {name: queue for name, queue in facts.queues.items() if queue.up}
        return tuple(
            p for p in self.candidates if p.queue in queues and gives(queues[p.queue], limit_s)
        )

    def free_pair(self, facts: ClusterFacts, limit_s: float) -> tuple[NodeFacts, ...]:
        """Return two idle nodes that one job can get; empty where there are none."""
        for candidate in self.open_candidates(facts, limit_s):
            free = [n for n in nodes_of(candidate, facts) if n.usable and n.idle_cores == n.cores]
            if len(free) > 1:
                return (free[0], free[1])
        return ()


def gives(queue: QueueFacts, limit_s: float) -> bool:
    """Return whether the partition allows the time limit ``limit_s``."""
    return queue.max_time_s is None or limit_s <= queue.max_time_s


def kinds_of(site: Site, facts: ClusterFacts) -> tuple[CalibratedKind, ...]:
    """Return one node type for each platform of the site's candidates, in the site file's order."""
    names = dict.fromkeys(candidate.platform for candidate in site.candidates)
    return tuple(_kind(name, site, facts) for name in names)


def _kind(name: str, site: Site, facts: ClusterFacts) -> CalibratedKind:
    candidates = tuple(candidate for candidate in site.candidates if candidate.platform == name)
    nodes = {node.name: node for candidate in candidates for node in nodes_of(candidate, facts)}
    return CalibratedKind(site.platforms[name], candidates, tuple(nodes.values()))


def chosen_nodes(
    kind: CalibratedKind, facts: ClusterFacts, most: int, limit_s: float
) -> tuple[NodeFacts, ...]:
    """Return at most ``most`` working nodes of the type that jobs with the time limit ``limit_s``
    can get.

    One node of each candidate comes first. Nodes with the platform's core count come before others,
    nodes without GPUs too where the platform is a CPU's (a candidate of CPU nodes may include GPU
    nodes), and idle nodes before busy ones.
    """
    candidates = kind.open_candidates(facts, limit_s)
    reached = {n.name for candidate in candidates for n in nodes_of(candidate, facts)}
    works = [n for n in kind.nodes if n.usable and n.name in reached]
    size = kind.platform.cores
    ordered = sorted(
        works,
        key=lambda n: (
            size not in n.benchmarked_cores,
            bool(n.gpus) != kind.platform.is_gpu,
            n.idle_cores < n.cores,
        ),
    )
    nodes_by_name: dict[str, NodeFacts] = {}
    for candidate in candidates:
        names_of_candidate = {n.name for n in nodes_of(candidate, facts)}
        if not names_of_candidate & nodes_by_name.keys():
            first = next((n for n in ordered if n.name in names_of_candidate), None)
            if first is not None:
                nodes_by_name[first.name] = first
    for node in ordered:
        nodes_by_name.setdefault(node.name, node)
    return tuple(nodes_by_name.values())[: max(most, 1)]


def named_kinds(
    kinds: Sequence[CalibratedKind], wanted: Sequence[str]
) -> tuple[CalibratedKind, ...]:
    """Return the node types whose platform or candidate is in ``wanted``; all types if
    ``wanted`` is empty. Raises KeyError for an unknown name."""
    if not wanted:
        return tuple(kinds)
    chosen = []
    for name in wanted:
        hits = [k for k in kinds if name == k.name or name in {p.name for p in k.candidates}]
        if not hits:
            raise KeyError(name)
        chosen += [k for k in hits if k not in chosen]
    return tuple(chosen)
