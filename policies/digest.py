"""Stable digests of a decision's inputs: the same on every machine and in every process.

Sets are sorted first, because Python's order of strings in a set differs between processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Needs, Request

DIGEST_BYTES = 16
NO_NEEDS = Needs()


def of_text(*parts: str) -> str:
    """Return the hexadecimal digest of the parts; the boundaries between parts count."""
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=DIGEST_BYTES).hexdigest()


def of_site(candidates: Sequence[Candidate], settings: PolicySettings) -> str:
    """Return the digest of the site's candidates (in any order) and settings."""
    lines = sorted(
        repr(
            (
                c.name,
                c.platform,
                c.queue,
                c.constraint,
                c.gres,
                c.translation,
                (c.cores_per_node, c.memory_bytes_per_node, c.gpus_per_node, c.gpu_memory_bytes),
                (c.slice_of, c.slice_part),
                (c.nodes, c.features, c.max_time_s, c.default_time_s),
                (c.price_per_node_hour, c.price_per_gpu_hour, c.price_per_core_hour),
                (c.power_per_gpu_w, c.power_per_core_w, c.carbon),
                (c.targets, c.architecture, c.instruction_sets),
                [_ordered(s) for s in (c.allowed_users, c.allowed_accounts, c.allowed_qos)],
                (c.speed_rank, c.by_fit),
            )
        )
        for c in candidates
    )
    return of_text(repr(settings), *lines)


def of_states(states: Mapping[str, CandidateState]) -> str:
    """Return the digest of the candidates' states, without the times when they were read."""
    return of_text(
        *(
            f"{name} {s.up} {s.idle_cores} {s.idle_gpus} {s.pending_jobs} {s.usable_nodes} "
            f"{s.gpu_types} {s.bounds} {s.ruled_out} "
            f"{None if s.rights is None else s.rights.digest}"
            f"{'' if s.waits is None else s.waits}"
            f"{'' if s.used_shares is None else s.used_shares.digest}"
            f"{s.closed or ''}"
            f"{'' if s.default_memory is None else s.default_memory}"
            f" {s.is_default} {s.preemptible or ''} {s.node_sizes or ''} {s.refuses_lists}"
            for name, s in sorted(states.items())
        )
    )


def of_request(request: Request) -> str:
    """Return the request as one line of text, for ``of_text``."""
    r, q = request.resources, request
    return (
        f"{r.nodes} {r.tasks} {r.cpus_per_task} {r.gpus} {r.memory_bytes_per_node} "
        f"{q.wants_placement} {q.time_limit_s} {q.size} {q.opted_out} {q.array or 1} "
        f"{(q.user, q.account, q.qos, q.queue, q.pinned, q.features, q.gres, q.workload)} "
        f"{_listed(q.allowed_queues)} "
        f"{'' if q.needs is NO_NEEDS or q.needs == NO_NEEDS else q.needs} {q.component} "
        f"{q.default_memory} {q.default_limit_s} {q.keeps_shape} {q.follows_shape} {q.packs_steps}"
    )


def _listed(names: frozenset[str] | None) -> str:
    return str(_ordered(names))


def _ordered(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
