"""Tells on which candidates, and so on which platform, a job ran, from the list of its nodes.

A queue can hold nodes of several kinds: the queue ``auto`` usually holds all of them. Accounting
names the nodes of each job, and the scheduler says of each node in which queues it is and what it
has. A node belongs to a candidate as ``states.nodes_of`` says; among a node's candidates, the job's
own GPUs choose: a job without GPUs ran on a CPU candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from berth.pilot.errors import SchedulerError
from berth.pilot.run import Run
from berth.plugin.scheduler.facts import NodeFacts
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.scheduler.states import selects
from berth.policies.values import Candidate

NO_NODES = frozenset(("", "None", "None assigned", "(null)", "N/A", "Unknown"))
"""What schedulers write in the place of a list of nodes for a job that got none."""
LONGEST_LIST = 65_536
"""Maximum number of characters of a stored list of nodes. The list of a job on 10,000 nodes with
numbered names is shorter than 100."""
_MOST_LISTS = 50_000
"""Maximum number of lists whose candidates are remembered."""


def recorded_nodes(text: str) -> str:
    """Return a list of nodes as accounting wrote it; empty: the job got no node, or the list is too
    long to be one."""
    text = text.strip()
    return "" if text in NO_NODES or len(text) > LONGEST_LIST else text


class UnknownPlatform(StrEnum):
    """Why the platform on which a job ran is not known: the end of a sentence that begins with the
    number of jobs."""

    TWO_KINDS = "jobs ran on nodes of two kinds: they count for neither"
    UNKNOWN_NODES = (
        "jobs ran on nodes that no candidate of the site file describes, or that the scheduler no "
        "longer has"
    )
    NO_NODES = (
        "jobs ran in queues that the site file has no single platform for, and their nodes are "
        "not recorded (column NodeList)"
    )


_Group = tuple[tuple[int, bool], ...]
"""The candidates of one node: their indexes, and whether the node has their type of GPU now."""


@dataclass
class NodeKinds:
    """The candidates of each node of the site."""

    nodes: Mapping[str, NodeFacts]
    candidates: Sequence[Candidate]
    _of_queue: dict[str, str] = field(init=False)
    _of_lists: dict[str, frozenset[_Group]] = field(default_factory=dict, init=False)
    _of_node: dict[str, _Group] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        platforms: dict[str, set[str]] = {}
        for candidate in self.candidates:
            platforms.setdefault(candidate.queue, set()).add(candidate.platform)
        self._of_queue = {
            queue: next(iter(names)) for queue, names in platforms.items() if len(names) == 1
        }

    def platform_of(self, run: Run) -> str | UnknownPlatform:
        """Return the platform on which a job ran, or why it is not known.

        Where the nodes do not tell, the platform of a queue with a single one counts.
        """
        groups = self._groups_of(run.node_list)
        of_groups = [self._platforms(group, run) for group in groups]
        if groups and all(len(platforms) == 1 for platforms in of_groups):
            platforms = frozenset().union(*of_groups)
            return next(iter(platforms)) if len(platforms) == 1 else UnknownPlatform.TWO_KINDS
        of_queue = self._of_queue.get(run.partition)
        if of_queue is not None:
            return of_queue
        return UnknownPlatform.UNKNOWN_NODES if groups else UnknownPlatform.NO_NODES

    def candidates_of(self, run: Run) -> frozenset[str]:
        """Return the names of the candidates on which the job can have run; empty: its nodes are
        not recorded or not known, or have no candidate in common."""
        names = [
            {candidate.name for candidate in self._fitting(group, run)}
            for group in self._groups_of(run.node_list)
        ]
        return frozenset(set.intersection(*names)) if names else frozenset()

    def _platforms(self, group: _Group, run: Run) -> frozenset[str]:
        """Return the platforms of those candidates of a node on which the job can have run; where
        some are in the job's own queue, of these."""
        fitting = self._fitting(group, run)
        in_queue = [candidate for candidate in fitting if candidate.queue == run.partition]
        return frozenset(candidate.platform for candidate in in_queue or fitting)

    def _fitting(self, group: _Group, run: Run) -> list[Candidate]:
        fitting = []
        for index, has_gpus in group:
            candidate = self.candidates[index]
            wanted = (candidate.gres or "gpu").partition(":")[2]
            if not run.gpus or not candidate.is_gpu:
                fits = not run.gpus and not candidate.is_gpu
            elif run.gpu_type and wanted:
                # Recorded types hold also where a GPU was cut into other slices since.
                fits = wanted == run.gpu_type
            else:
                fits = has_gpus
            if fits:
                fitting.append(candidate)
        return fitting

    def _groups_of(self, node_list: str) -> frozenset[_Group]:
        """Return the different groups of candidates that the nodes of a list have; an unknown node
        has none."""
        groups = self._of_lists.get(node_list)
        if groups is None:
            try:
                groups = frozenset(map(self._group_of_node, hostlist(node_list)))
            except SchedulerError:
                groups = frozenset(((),))
            if len(self._of_lists) < _MOST_LISTS:
                self._of_lists[node_list] = groups
        return groups

    def _group_of_node(self, name: str) -> _Group:
        group = self._of_node.get(name)
        if group is None:
            node = self.nodes.get(name)
            group = () if node is None else tuple(self._candidates_of_node(node))
            self._of_node[name] = group
        return group

    def _candidates_of_node(self, node: NodeFacts) -> Iterator[tuple[int, bool]]:
        for index, candidate in enumerate(self.candidates):
            if candidate.queue in node.queues and selects(node, candidate.constraint, None):
                yield index, selects(node, None, candidate.gres or "gpu")
