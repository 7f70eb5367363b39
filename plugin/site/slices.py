"""MIG slices in the site file: one table becomes a candidate for each profile of the GPU model.

Which of them exist at a moment is the scheduler's to say (``CandidateState``), so that a node
that is cut anew needs no change of the site file.
"""

from __future__ import annotations

import re
from pathlib import Path

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.plugin.site.document import CandidateTable, SlicesTable
from berth.predictor.hardware.mig import SliceProfile, geometry_of, lookup
from berth.predictor.hardware.mig.slices import MARK, part_of_gpu, slice_platform

PLACE = "{profile}"
_PADDING = re.compile(r"gpu:off\d+")


def is_padding(kind: str) -> bool:
    """True for ``gpu:off1``: what ``berth mig apply`` fills a node up with, for no job to use."""
    return _PADDING.fullmatch(kind) is not None


def expanded(
    table: CandidateTable, whole: Platform, key: str, path: Path, *, typed: bool
) -> list[tuple[CandidateTable, Platform]]:
    """One table for each slice of a table with ``slices``, and the platform of each.

    ``typed``: the scheduler tells slices apart by type (Slurm), not only by queue (Flux).
    Raises DocumentError where the platform is no GPU that can be cut, or lacks a profile.
    """
    asked = table.slices
    if asked is None:
        return [(table, whole)]
    try:
        if whole.kind is not PlatformKind.GPU:
            raise UsageError(f"{whole.name} is not a whole GPU")
        geometry = (None if asked.gpu else geometry_of(whole)) or lookup(asked.gpu or whole.name)
        names = asked.profiles or tuple(p.name for p in geometry.profiles if p.is_plain)
        profiles = [geometry.profile(name) for name in names]
    except UsageError as error:
        raise DocumentError(path, error.message, key=f"{key}.slices", hint=error.hint) from None
    if table.gres not in (None, "gpu"):
        raise DocumentError(
            path, "is made from slices.type_pattern; leave it out", key=f"{key}.gres"
        )
    return [
        (
            _of(table, asked, p, part_of_gpu(geometry, p), typed=typed),
            slice_platform(whole, geometry, p),
        )
        for p in profiles
    ]


def _of(
    table: CandidateTable, asked: SlicesTable, profile: SliceProfile, part: float, *, typed: bool
) -> CandidateTable:
    name = profile.name
    price = table.price_per_gpu_hour
    return table.model_copy(
        update={
            "name": f"{table.name}-{name}",
            "platform": f"{table.platform}{MARK}{name}",
            "partition": table.partition.replace(PLACE, name),
            "constraint": table.constraint and table.constraint.replace(PLACE, name),
            "properties": table.properties
            and tuple(text.replace(PLACE, name) for text in table.properties),
            "gres": f"gpu:{asked.type_pattern.replace(PLACE, name)}" if typed else None,
            "gpus_per_node": (table.gpus_per_node or 1) * profile.max_instances,
            "price_per_gpu_hour": None if price is None else price * part,
            "slices": None,
        }
    )
