"""Which places a queue holds: its kinds of nodes, and the constraint that tells each apart.

A scheduler knows no negation of features: a kind is told apart by a feature of its own or by a
combination of features (``a&b``) that no other node of the queue has. What cannot be told apart so
is said in a remark, and the place counts the nodes that jobs really may get.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from berth.pilot.platform import Platform
from berth.plugin.scheduler.facts import NodeFacts
from berth.plugin.scheduler.host_lists import compressed
from berth.plugin.scheduler.states import selects
from berth.plugin.site.guess import family, guess_gpu
from berth.plugin.site.slices import is_padding

_MOST_FEATURES = 3
"""Features in a combination: longer ones nobody keeps up."""
_MOST_COMBINED = 24
"""Features that combinations are made of; a node has fewer."""
_FEATURE = re.compile(r"[A-Za-z0-9_.-]+")
_LONGEST_LIST = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes of one kind and how a job asks for them."""

    meant: tuple[NodeFacts, ...]
    selected: tuple[NodeFacts, ...]
    """Nodes of the queue that a job gets which asks so; more than those that are meant where
    nothing tells them apart."""
    gres: str | None
    constraint: str | None
    kinds: int = 1
    """How many kinds the nodes that are meant are of: those that are asked for in the same way."""

    def remarks(self) -> Iterator[str]:
        """What somebody should check, each without its full stop."""
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
                f"meant for {_nodes(len(meant))}, {also} {_kinds_text(others)} ({names}), which "
                "no features tell apart; give either a feature of its own, or a partition"
            )


def _kinds_text(nodes: Sequence[NodeFacts]) -> str:
    """``2 GPU nodes with 64 cores, 17 nodes with 40 cores``."""
    counts: dict[tuple[bool, int], int] = {}
    for node in nodes:
        key = bool(_gpu_types(node)), node.cores
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(
        f"{_nodes(count, 'GPU ' * has_gpus)} with {cores} cores"
        for (has_gpus, cores), count in counts.items()
    )


def _nodes(count: int, kind: str = "") -> str:
    return f"{count} {kind}node{'s' * (count != 1)}"


def places_of(nodes: Sequence[NodeFacts], known: Mapping[str, Platform]) -> list[Place]:
    """The places of a queue with these nodes: kinds without GPUs first, then each GPU type."""
    on_cpus = [n for n in nodes if not _gpu_types(n)]
    found = _told_apart(_kinds(on_cpus, None, known), nodes, None)
    types = sorted({gres for n in nodes for gres in _gpu_types(n)})
    for gres in types:
        having = [n for n in nodes if n.gpus.get(gres)]
        found += _told_apart(_kinds(having, gres, known), nodes, gres)
    return found


def _gpu_types(node: NodeFacts) -> tuple[str, ...]:
    return tuple(gres for gres, count in node.gpus.items() if count and not is_padding(gres))


def _kinds(
    nodes: Sequence[NodeFacts], gres: str | None, known: Mapping[str, Platform]
) -> list[list[NodeFacts]]:
    """Nodes that are equal in what a job notices."""
    models: dict[tuple[str, ...], str | None] = {}
    groups: dict[object, list[NodeFacts]] = {}
    for node in nodes:
        if gres is not None and node.features not in models:
            guess = guess_gpu(gres, node, known)
            models[node.features] = None if guess is None else guess.platform.name
        gpus = None if gres is None else (node.gpus[gres], models[node.features])
        key = (node.architecture, node.cores, gpus, family(node))
        groups.setdefault(key, []).append(node)
    return list(groups.values())


def _told_apart(
    kinds: Sequence[Sequence[NodeFacts]], nodes: Sequence[NodeFacts], gres: str | None
) -> list[Place]:
    """A place for each kind; kinds that are asked for in the same way are one place."""
    reached = [n for n in nodes if selects(n, None, gres)]
    by_constraint: dict[str | None, list[Sequence[NodeFacts]]] = {}
    for kind in kinds:
        by_constraint.setdefault(_constraint(kind, reached), []).append(kind)
    return [
        Place(
            meant=tuple(node for kind in same for node in kind),
            selected=tuple(n for n in reached if selects(n, constraint, gres)),
            gres=gres,
            constraint=constraint,
            kinds=len(same),
        )
        for constraint, same in by_constraint.items()
    ]


def _constraint(kind: Sequence[NodeFacts], reached: Sequence[NodeFacts]) -> str | None:
    """The fewest features with which a job gets the fewest nodes of other kinds; None: with none.

    One that names the CPU is preferred.
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
    """The features that all these nodes have, in the order of the first."""
    return tuple(f for f in nodes[0].features if all(f in node.features for node in nodes))
