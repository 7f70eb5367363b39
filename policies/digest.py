"""Stable digests of a decision's inputs: the same on every machine and in every process.

Sets are sorted first, because Python's order of strings in a set differs between processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields

from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Demands, Request

DIGEST_BYTES = 16
NO_NEEDS = Demands()
_OF_CANDIDATE = [field.name for field in fields(Candidate)]
_OF_STATE = [field.name for field in fields(CandidateState) if field.name != "as_of_s"]


def of_text(*parts: str) -> str:
    """Return the hexadecimal digest of the parts; the boundaries between parts count."""
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=DIGEST_BYTES).hexdigest()


def of_site(candidates: Sequence[Candidate], settings: PolicySettings) -> str:
    """Return the digest of the site's candidates (in any order) and settings."""
    lines = sorted(repr([_stable(getattr(c, name)) for name in _OF_CANDIDATE]) for c in candidates)
    return of_text(repr(settings), *lines)


def of_states(states: Mapping[str, CandidateState]) -> str:
    """Return the digest of the candidates' states, without the times when they were read."""
    return of_text(
        *(
            f"{candidate} {[_stable(getattr(state, name)) for name in _OF_STATE]}"
            for candidate, state in sorted(states.items())
        )
    )


def of_request(request: Request) -> str:
    """Return the request as one line of text, for ``of_text``."""
    r, q = request.resources, request
    return (
        f"{r.nodes} {r.tasks} {r.cpus_per_task} {r.gpus} {r.memory_bytes_per_node} "
        f"{q.wants_placement} {q.time_limit_s} {q.size} {q.opted_out} {q.array or 1} "
        f"{(q.user, q.account, q.qos, q.queue, q.pinned, q.features, q.gres, q.workload)} "
        f"{_stable(q.allowed_queues)} "
        f"{'' if q.needs is NO_NEEDS or q.needs == NO_NEEDS else q.needs} {q.component} "
        f"{q.own} {q.keeps_shape} {q.follows_shape} {q.packs_steps} "
        f"{q.slices_from_use}"
    )


def _stable(value: object) -> object:
    """Return what stands for a value in a digest: sets in order, large tables by their digest."""
    if isinstance(value, frozenset):
        return sorted(value)
    return getattr(value, "digest", value)
