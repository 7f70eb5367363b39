"""Limits on a model file's size, nodes and tensors, above which Berth refuses to read the file.

The unprivileged child that parses users' files imports this module, so it uses the standard
library only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Upper limits for reading one model file in the child process."""

    file_bytes: int = 2**31
    """Largest file, in bytes; protobuf has the same limit."""
    whole_bytes: int = 2**20
    """Files up to this size are read whole, larger ones part by part."""
    part_bytes: int = 9 * 1024
    """In files that are read part by part, larger parts are split, or skipped as weights."""
    skeleton_bytes: int = 64 * 2**20
    """Largest size of the file without its weights."""
    parts: int = 1_000_000
    """Largest number of protobuf fields that are read in a file that is read part by part."""
    nodes: int = 50_000
    """Largest number of nodes, after calls of the model's functions are replaced by their nodes."""
    depth: int = 8
    """Deepest nesting of functions that call functions."""
    rank: int = 16
    elements: int = 2**48
    """Largest number of elements of a tensor, declared or inferred."""
    seconds: float = 10.0
    """Processor time that the child may use for one file: a busy machine changes no answer."""
    wait_s: float = 600.0
    """Time that the child may take to get that processor time."""
    memory_bytes: int = 512 * 2**20
    """Largest address space of the child process."""


LIMITS = FileLimits()
KNOWN_VALUES = 1024
"""Largest number of elements of constants whose values are known (shapes, axes, scales)."""
LARGEST_COUNT = 2**62
"""Largest accepted number of operations, bytes or elements of a node."""
