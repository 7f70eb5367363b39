"""Makes a first site file from the cluster's state: one candidate per partition and type of node.

The nodes of each queue are divided into groups of equal nodes, each with a constraint that selects
the group. Constraints contain no negation, as Slurm documents none: a group is selected by a
feature, or a combination of features (``a&b``), that no other node of the queue has. Where features
cannot distinguish two types of node, a remark says so, and the group counts all nodes that its
constraint selects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from berth.pilot.platform import Platform, PlatformKind
from berth.pilot.units import counted
from berth.plugin.first_site.guess import (
    Guess,
    device_named,
    family,
    guess_cpu,
    guess_gpu,
    instruction_sets,
    slice_named,
)
from berth.plugin.first_site.roles import Role, role_of
from berth.plugin.first_site.stub import STUB_MARK, cpu_stub, gpu_stub
from berth.plugin.scheduler.facts import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.scheduler.host_lists import compressed
from berth.plugin.scheduler.protocol import Scheduler
from berth.plugin.scheduler.states import selects
from berth.plugin.site.candidates import is_padding
from berth.predictor.hardware.platforms import shipped

SAME_MEMORY = 0.1
"""Largest relative difference between the memory that a node reports and the benchmarked memory of
a platform.
"""
AUTO_QUEUE = "auto"
_USABLE_OF_SLICE = 0.83
"""The smallest usable fraction of a slice's nominal memory among all published profiles."""
_SLICE = "a MIG slice; where GPUs are cut anew, [candidates.slices] covers every profile at once"
_MOST_FEATURES = 3
"""Maximum number of features in a constraint: administrators would not maintain longer ones."""
_MOST_COMBINED = 24
"""Maximum number of features from which combinations are formed; real nodes have fewer."""
_FEATURE = re.compile(r"[A-Za-z0-9_.-]+")
_LONGEST_LIST = 200


@dataclass(frozen=True, slots=True)
class FirstCandidate:
    """One ``[[candidates]]`` entry of a first site file, with remarks that become its comment."""

    name: str
    platform: str
    queue: QueueFacts
    nodes: int
    cores_per_node: int
    memory_bytes: int
    gres: str | None = None
    gpus_per_node: int = 0
    constraint: str | None = None
    features: tuple[str, ...] = ()
    instruction_sets: tuple[str, ...] = ()
    architecture: str = "x86_64"
    remarks: tuple[str, ...] = ()
    role: tuple[Role, str] | None = None
    """Says what the queue is for, and why that is assumed; None: it is for all jobs."""


@dataclass(slots=True)
class FirstSite:
    """The result of ``berth site init``, to be written as ``berth.toml`` and platform files."""

    facts: ClusterFacts
    scheduler: Scheduler
    candidates: list[FirstCandidate] = field(default_factory=list)
    stubs: dict[str, Platform] = field(default_factory=dict)
    reference_platform: str | None = None
    reference_queue: str | None = None
    nodes: dict[str, frozenset[str]] = field(default_factory=dict)
    """Names of the nodes of each type of CPU node, by the name of its stub platform."""
    has_auto: bool = False
    left_out: list[QueueFacts] = field(default_factory=list)
    """Queues that get no candidates, because the site does not offer them to users."""

    @property
    def queue_word(self) -> str:
        """Return the scheduler's word for a queue."""
        return self.scheduler.queue_word


def first_site(
    facts: ClusterFacts, known: Mapping[str, Platform], scheduler: Scheduler
) -> FirstSite:
    """Return candidates for each queue of the cluster: one per type of node and GPU type.

    The queue ``auto`` and queues that users may not use get no candidates.
    """
    site = FirstSite(facts, scheduler, has_auto=AUTO_QUEUE in facts.queues)
    for queue in facts.queues.values():
        if queue.name == AUTO_QUEUE:
            continue
        if queue.not_for_users is not None:
            site.left_out.append(queue)
            continue
        groups = node_groups([n for n in facts.nodes if queue.name in n.queues], known)
        for group in groups:
            _add(site, queue, group, groups, known)
    if all(c.role is not None for c in site.candidates):
        site.candidates = [replace(c, role=None) for c in site.candidates]
    on_cpus = [c for c in site.candidates if c.gres is None and c.role is None]
    # Pilot jobs run in the reference queue: queues that start jobs come first, then the default.
    on_cpus.sort(key=lambda c: (not c.queue.up, not c.queue.is_default))
    reference = next(iter(on_cpus), None)
    if reference is not None:
        site.reference_platform = reference.platform
        site.reference_queue = reference.queue.name
    site.candidates.sort(key=_slower_cpus_last)
    return site


def _slower_cpus_last(candidate: FirstCandidate) -> tuple[int, int]:
    """Return the sort key by which newer CPUs come first, by their instruction sets.

    The order of candidates is that of their speed, until their platforms are benchmarked.
    """
    level = max((n for n in (2, 3, 4) if f"x86-64-v{n}" in candidate.instruction_sets), default=0)
    is_gpu = candidate.gres is not None
    return (0, 0) if is_gpu else (-level, -len(candidate.instruction_sets))


def _add(
    site: FirstSite,
    queue: QueueFacts,
    group: NodeGroup,
    groups: Sequence[NodeGroup],
    known: Mapping[str, Platform],
) -> None:
    gres, kind = group.gres, group.meant
    remarks = list(group.remarks())
    if not queue.up:
        remarks.append(f"the {site.queue_word} is {queue.closed or 'not up'}")
    smallest = min(kind, key=lambda n: n.cores)
    features = shared_features(group.selected)
    if gres is None:
        guess, of_stub = guess_cpu(smallest, known), _own_stub(site, queue, kind)
        guess = _added(of_stub, smallest, known) or guess
    else:
        guess, of_stub = guess_gpu(gres, smallest, known), _gpu_stub(gres, smallest)
    platform, more = _settle(site, guess, of_stub)
    if platform.kind is PlatformKind.MIG or (gres is not None and slice_named(gres) is not None):
        more = [*more, _SLICE]
    sets = instruction_sets(features)
    if not sets and gres is None and guess is not None and len(group.selected) == len(kind):
        sets = platform.instruction_sets
    site.candidates.append(
        FirstCandidate(
            name=_unique(_name("-".join((queue.name, *_suffix(group, groups)))), site),
            platform=platform.name,
            queue=queue,
            nodes=len(group.selected),
            cores_per_node=smallest.cores,
            memory_bytes=min(n.memory_bytes for n in kind),
            gres=gres,
            gpus_per_node=0 if gres is None else min(n.gpus[gres] for n in kind),
            constraint=group.constraint,
            features=features,
            instruction_sets=sets,
            architecture=smallest.architecture,
            remarks=(*remarks, *more),
            role=role_of(queue, site.facts),
        )
    )


def _suffix(group: NodeGroup, groups: Sequence[NodeGroup]) -> Iterator[str]:
    """Yield name suffixes that distinguish this group from the other groups of its queue."""
    if len(groups) == 1:
        return
    if group.gres is not None:
        yield group.gres.rpartition(":")[2]
    of_same_type = [other for other in groups if other.gres == group.gres]
    if group.constraint is not None and (group.gres is None or len(of_same_type) > 1):
        yield group.constraint


def _gpu_stub(gres: str, node: NodeFacts) -> Platform:
    """Return a stub platform for a GPU type: from its data sheet, or else of an unknown GPU, or of
    a slice with the memory in its name.
    """
    name, of_slice = _name(gres.replace(":", "-")), slice_named(gres.partition(":")[2])
    if of_slice is None:
        return gpu_stub(name, architecture=node.architecture, device=device_named(gres))
    memory_bytes = of_slice.size_gb * _USABLE_OF_SLICE * 2**30
    return gpu_stub(name, architecture=node.architecture, memory_bytes=memory_bytes)


def _added(stub: Platform, node: NodeFacts, known: Mapping[str, Platform]) -> Guess | None:
    """Return the site's own platform that describes these nodes; None: none fits.

    It is the platform with the stub's name, or else the only benchmarked platform of the same size.
    """
    own = {n: p for n, p in known.items() if n not in shipped() and STUB_MARK not in p.description}
    if stub.name in own:
        return Guess(own[stub.name])
    similar = [
        p
        for p in own.values()
        if (p.kind, p.architecture) == (PlatformKind.CPU, node.architecture)
        and p.cores in node.benchmarked_cores
        and abs(p.memory_bytes / max(1, node.installed_memory_bytes) - 1) <= SAME_MEMORY
    ]
    if len(similar) != 1:
        return None
    return Guess(
        similar[0], f"{similar[0].name} was added and has as many cores and as much memory"
    )


def _own_stub(site: FirstSite, queue: QueueFacts, kind: Sequence[NodeFacts]) -> Platform:
    """Return a stub platform for these nodes; its name includes the queue where other nodes already
    have a stub of that name.
    """
    stub, nodes = _cpu_stub(kind), frozenset(n.name for n in kind)
    name = stub.name
    if site.nodes.setdefault(name, nodes).isdisjoint(nodes):
        name = _name(f"{name}-{queue.name}")
    site.nodes[name] = site.nodes.get(name, frozenset()) | nodes
    return stub.model_copy(update={"name": name})


def _cpu_stub(kind: Sequence[NodeFacts]) -> Platform:
    node = min(kind, key=lambda n: n.cores)
    cores, memory = node.installed_cores, min(n.installed_memory_bytes for n in kind)
    words = [*sorted(f for f in family(node)), f"{cores}c", f"{memory // 2**30}g"]
    return cpu_stub(
        _name("-".join(["cpu", *words])),
        cores=cores,
        memory_bytes=max(1, memory),
        architecture=_name(node.architecture),
        instruction_sets=instruction_sets(shared_features(kind)),
    )


def _settle(site: FirstSite, guess: Guess | None, stub: Platform) -> tuple[Platform, list[str]]:
    """Return the guessed platform with a remark on its uncertainty, or else the stub, kept for
    writing.
    """
    if guess is not None:
        of_slice = guess.platform.kind is PlatformKind.MIG
        written = guess.whole if of_slice else guess.platform
        if written is not None and written.name not in shipped():
            site.stubs.setdefault(written.name, written)
        remarks = [f"check the platform: {guess.doubt}"] if guess.doubt else []
        if guess.whole is not None:
            remarks.append(f"{guess.whole.name} is known by its data sheet only: a stub")
        return guess.platform, remarks
    site.stubs.setdefault(stub.name, stub)
    return stub, ["an unknown kind of hardware: the platform file is a stub, to be benchmarked"]


def _name(text: str) -> str:
    """Return ``text`` as a valid Berth name of letters, digits and ``_.+-``."""
    cleaned = re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).lstrip("_.+-")[:100]
    return cleaned or "unnamed"


def _unique(name: str, site: FirstSite) -> str:
    taken = {c.name for c in site.candidates}
    numbered = (f"{name}-{i}" for i in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of equal nodes of one queue, and the request that selects them."""

    meant: tuple[NodeFacts, ...]
    selected: tuple[NodeFacts, ...]
    """Nodes of the queue that the group's request selects; more than ``meant`` where no feature
    distinguishes the types of node.
    """
    gres: str | None
    constraint: str | None
    kinds: int = 1
    """Number of types of node in ``meant``: more than 1 where the same request selects them all."""

    def remarks(self) -> Iterator[str]:
        """Yield the remarks that the administrator should check, each without a full stop."""
        if self.kinds > 1:
            yield "holds several kinds of nodes that no feature tells apart"
        meant = {n.name for n in self.meant}
        others = [n for n in self.selected if n.name not in meant]
        if others:
            also = "but its jobs may also get"
            if self.constraint is not None:
                also = f"but the constraint {self.constraint} also selects"
            names = compressed(n.name for n in others)
            names = names if len(names) <= _LONGEST_LIST else f"{names[:_LONGEST_LIST]}..."
            yield (
                f"meant for {counted(len(meant), 'node')}, {also} {_kinds_text(others)} "
                f"({names}), which no features tell apart; give either a feature of its own, or a "
                "partition"
            )


def _kinds_text(nodes: Sequence[NodeFacts]) -> str:
    """Return numbers of nodes by type, such as ``2 GPU nodes with 64 cores, 17 nodes with 40
    cores``.
    """
    counts: dict[tuple[bool, int], int] = {}
    for node in nodes:
        key = bool(_gpu_types(node)), node.cores
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(
        f"{counted(count, 'GPU node' if has_gpus else 'node')} with {cores} cores"
        for (has_gpus, cores), count in counts.items()
    )


def node_groups(nodes: Sequence[NodeFacts], known: Mapping[str, Platform]) -> list[NodeGroup]:
    """Return a queue's nodes in groups of equal nodes: those without GPUs first, then by
    GPU type.
    """
    on_cpus = [n for n in nodes if not _gpu_types(n)]
    groups = _told_apart(_kinds(on_cpus, None, known), nodes, None)
    types = sorted({gres for n in nodes for gres in _gpu_types(n)})
    for gres in types:
        having = [n for n in nodes if n.gpus.get(gres)]
        groups += _told_apart(_kinds(having, gres, known), nodes, gres)
    return groups


def _gpu_types(node: NodeFacts) -> tuple[str, ...]:
    return tuple(gres for gres, count in node.gpus.items() if count and not is_padding(gres))


def _kinds(
    nodes: Sequence[NodeFacts], gres: str | None, known: Mapping[str, Platform]
) -> list[list[NodeFacts]]:
    """Return nodes in lists whose nodes are equal in all properties that matter to a job."""
    models: dict[tuple[str, ...], str | None] = {}
    groups: dict[object, list[NodeFacts]] = {}
    for node in nodes:
        if gres is not None and node.features not in models:
            guess = guess_gpu(gres, node, known)
            models[node.features] = None if guess is None else guess.platform.name
        gpus = None if gres is None else (node.gpus[gres], models[node.features])
        key = (node.architecture, node.installed_cores, node.cores, gpus, family(node))
        groups.setdefault(key, []).append(node)
    return list(groups.values())


def _told_apart(
    kinds: Sequence[Sequence[NodeFacts]], nodes: Sequence[NodeFacts], gres: str | None
) -> list[NodeGroup]:
    """Return a group for each type of node; types that the same request selects become
    one group.
    """
    reached = [n for n in nodes if selects(n, None, gres)]
    by_constraint: dict[str | None, list[Sequence[NodeFacts]]] = {}
    for kind in kinds:
        by_constraint.setdefault(_constraint(kind, reached), []).append(kind)
    return [
        NodeGroup(
            meant=tuple(node for kind in same for node in kind),
            selected=tuple(n for n in reached if selects(n, constraint, gres)),
            gres=gres,
            constraint=constraint,
            kinds=len(same),
        )
        for constraint, same in by_constraint.items()
    ]


def _constraint(kind: Sequence[NodeFacts], reached: Sequence[NodeFacts]) -> str | None:
    """Return the constraint that selects this type of node and the fewest other nodes, with the
    fewest features; None: no constraint is needed or helps.

    Features that name the CPU are preferred.
    """
    meant = {n.name for n in kind}
    others = Counter(frozenset(n.features) for n in reached if n.name not in meant)
    if not others:
        return None
    usable = [f for f in shared_features(kind) if _FEATURE.fullmatch(f)]
    usable = [f for f in usable if any(f not in features for features in others)]
    naming = family(kind[0])
    usable = sorted(usable, key=lambda f: f not in naming)[:_MOST_COMBINED]
    best, fewest = None, others.total()
    for length in range(1, min(_MOST_FEATURES, len(usable)) + 1):
        for names in combinations(usable, length):
            left = sum(count for has, count in others.items() if has.issuperset(names))
            if left < fewest:
                best, fewest = "&".join(names), left
        if fewest == 0:
            break
    return best


def shared_features(nodes: Sequence[NodeFacts]) -> tuple[str, ...]:
    """Return the features that all these nodes have, in the order of the first."""
    return tuple(f for f in nodes[0].features if all(f in node.features for node in nodes))
