"""Flux configuration for MIG slices: one property and queue per slice profile, slices as GPUs.

Flux has no GPU types: a resource set identifies GPUs by number only. So every node whose slices all
have one profile gets that profile as a property, a queue requires the property, and the node's GPUs
are its slices. Nodes with several profiles are refused, because a job could not choose among their
slices; give all GPUs of a node the same profile. Formats: flux-config-queues(5),
flux-config-resource(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from berth.plugin.mig.errors import PlanRefused
from berth.policies.mig import Layout

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def property_of(profile: str) -> str:
    """Return the property of nodes with that slice profile, e.g. ``mig-1g.5gb`` (with the
    characters that RFC 20 allows).
    """
    return "mig-" + _UNSAFE.sub("-", profile)


def profile_of(node: str, layouts: Sequence[Layout]) -> tuple[str, int]:
    """Return the profile of a node's slices and their number. Raises PlanRefused for several
    profiles.
    """
    profiles = [i.profile for layout in layouts for i in layout.instances]
    if not profiles:
        raise PlanRefused(f"{node} has no MIG slices")
    if len(set(profiles)) > 1:
        raise PlanRefused(
            f"{node} mixes {', '.join(sorted(set(profiles)))}; a Flux job could not choose",
            hint="cut all GPUs of a node into one profile",
        )
    return profiles[0], len(profiles)


def configuration(nodes: Mapping[str, Sequence[Layout]], cores: int) -> str:
    """Return TOML for ``flux config``: one queue per profile, and the nodes with their slices as
    GPUs.

    ``cores``: cores per node. Raises PlanRefused.
    """
    equal_nodes: dict[tuple[str, int], list[str]] = {}
    for node, layouts in nodes.items():
        equal_nodes.setdefault(profile_of(node, layouts), []).append(node)
    names = [property_of(profile) for profile, _ in equal_nodes]
    lines = [
        line
        for name in dict.fromkeys(names)
        for line in (f'[queues."{name}"]', f'requires = ["{name}"]', "")
    ]
    for name, ((_, count), hosts) in zip(names, equal_nodes.items(), strict=True):
        lines += [
            "[[resource.config]]",
            f'hosts = "{",".join(hosts)}"',
            f'cores = "{_idset(cores)}"',
            f'gpus = "{_idset(count)}"',
            f'properties = ["{name}"]',
            "",
        ]
    return "\n".join(lines)


def _idset(count: int) -> str:
    return "0" if count == 1 else f"0-{count - 1}"
