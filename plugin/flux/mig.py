"""Flux: a property and a queue for each slice profile, and a node's resource set (R).

Flux knows no kinds of GPUs: a resource set names GPUs by number only. So every node whose slices
are all of one profile gets that profile as a property, a queue requires the property, and the
node's GPUs are its slices. Mixed nodes cannot be told apart by a job and are refused; cut whole
nodes alike. Formats: Flux RFC 20 (resource set version 1) and flux-config-queues(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from berth.plugin.mig.errors import PlanRefused
from berth.policies.mig import Layout

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def property_of(profile: str) -> str:
    """The property of nodes cut into that profile, e.g. ``mig-1g.5gb`` (RFC 20's characters)."""
    return "mig-" + _UNSAFE.sub("-", profile)


def profile_of(node: str, layouts: Sequence[Layout]) -> tuple[str, int]:
    """The one profile of a node and how many slices it has. Raises PlanRefused."""
    profiles = [i.profile for layout in layouts for i in layout.instances]
    if not profiles:
        raise PlanRefused(f"{node} has no MIG slices")
    if len(set(profiles)) > 1:
        raise PlanRefused(
            f"{node} mixes {', '.join(sorted(set(profiles)))}; a Flux job could not choose",
            hint="cut all GPUs of a node into one profile",
        )
    return profiles[0], len(profiles)


def resource_set(
    nodes: Mapping[str, Sequence[Layout]], cores: int, ranks: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """R (version 1) for these nodes of ``cores`` cores each, with properties by rank.

    ``ranks``: broker rank by node; default: the order given. Raises PlanRefused.
    """
    numbered = ranks or {node: rank for rank, node in enumerate(nodes)}
    lite: list[dict[str, Any]] = []
    properties: dict[str, list[str]] = {}
    for node, layouts in nodes.items():
        profile, count = profile_of(node, layouts)
        rank = str(numbered[node])
        children = {"core": _idset(cores), "gpu": _idset(count)}
        lite.append({"rank": rank, "children": children})
        properties.setdefault(property_of(profile), []).append(rank)
    by_rank = sorted(nodes, key=lambda node: numbered[node])
    return {
        "version": 1,
        "execution": {
            "R_lite": lite,
            "starttime": 0.0,
            "expiration": 0.0,
            "nodelist": [",".join(by_rank)],
            "properties": {name: ",".join(where) for name, where in sorted(properties.items())},
        },
    }


def queues(profiles: Sequence[str]) -> str:
    """TOML for ``flux config``: a queue for each profile that requires its property."""
    lines = []
    for profile in dict.fromkeys(profiles):
        name = property_of(profile)
        lines += [f'[queues."{name}"]', f'requires = ["{name}"]', ""]
    return "\n".join(lines)


def _idset(count: int) -> str:
    return "0" if count == 1 else f"0-{count - 1}"
