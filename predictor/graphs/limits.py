"""How large a model file may be in every respect, before it is refused in one sentence.

Standard library only: the unprivileged child that parses users' files imports this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one reading."""

    file_bytes: int = 2**31
    """Size of the file; protobuf itself ends there."""
    whole_bytes: int = 2**20
    """Files up to this size are read whole, larger ones part by part."""
    part_bytes: int = 9 * 1024
    """Parts of a larger file beyond this are taken apart, or left out unread."""
    skeleton_bytes: int = 64 * 2**20
    """Size of the file without its weights."""
    parts: int = 1_000_000
    """Number of messages that are taken apart while weights are left out."""
    nodes: int = 50_000
    """Number of nodes, with the bodies of functions put in place."""
    depth: int = 8
    """Depth of functions that call functions."""
    rank: int = 16
    elements: int = 2**48
    """Elements of one tensor, declared or inferred."""
    seconds: float = 10.0
    """Processor and wall time of the child for one file."""
    memory_bytes: int = 512 * 2**20
    """Address space of the child."""


LIMITS = Limits()
KNOWN_VALUES = 1024
"""Elements up to which a constant's values are followed (shapes, axes, scales)."""
LARGEST_COUNT = 2**62
"""Operations and bytes beyond this are nonsense."""
