"""Makes candidates from the site file's tables: fills in platform defaults and expands slices.

A table with ``slices`` becomes one candidate per MIG profile of the GPU model. The scheduler
reports which of the profiles exist now (``CandidateState``), so changing a node's MIG layout needs
no change of the site file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.plugin.site.candidate_tables import CandidateTable, SlicesTable
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.energy import powers
from berth.plugin.site.schedulers import SchedulerTraits
from berth.policies.values import Candidate
from berth.predictor.hardware.mig.geometry import SliceProfile
from berth.predictor.hardware.mig.slices import (
    MARK,
    derived,
    geometry_of,
    lookup,
    part_of,
    part_of_gpu,
    slice_platform,
)

SLICE_MARK = "{profile}"
_PADDING = re.compile(r"gpu:off\d+")


def candidates_of(
    document: SiteDocument,
    scheduler: type[SchedulerTraits],
    platforms: dict[str, Platform],
    path: Path,
) -> tuple[Candidate, ...]:
    """Return the candidates that the site file describes; platforms of slices are added to
    ``platforms``.
    """
    result: list[Candidate] = []
    targets: dict[tuple[str, str | None, str | None], str] = {}
    for index, written in enumerate(document.candidates):
        key = f"candidates.{index}"
        whole = platform_named(written.platform, platforms, f"{key}.platform", path)
        for expanded_table, platform in expanded(
            written, whole, key, path, typed=scheduler.typed_gpus
        ):
            platforms.setdefault(platform.name, platform)
            table = _in_own_terms(scheduler, expanded_table, platforms, key, path)
            if any(c.name == table.name for c in result):
                raise DocumentError(path, f"{table.name!r} is defined twice", key=f"{key}.name")
            target = (table.partition, table.constraint, table.gres)
            if target in targets:
                raise DocumentError(
                    path,
                    f"is the same place as candidate {targets[target]!r}",
                    key=f"{key}.partition",
                )
            targets[target] = table.name
            result.append(_candidate(table, platforms, key, path))
    return tuple(result)


def is_padding(kind: str) -> bool:
    """Return whether a GPU type is padding, such as ``gpu:off1``.

    ``berth mig apply`` fills a node's GPU count with such types, which no job should request.
    """
    return _PADDING.fullmatch(kind) is not None


def expanded(
    table: CandidateTable, whole: Platform, key: str, path: Path, *, typed: bool
) -> list[tuple[CandidateTable, Platform]]:
    """Return one table per MIG slice of a table with ``slices``, each with the slice's platform.

    ``typed``: the scheduler distinguishes slices by GPU type (Slurm), not only by queue (Flux).
    Raises DocumentError where the platform is not a GPU that supports MIG, or lacks a profile.
    """
    asked = table.slices
    if asked is None:
        return [(table, whole)]
    try:
        if whole.kind is not PlatformKind.GPU:
            raise UsageError(f"{whole.name} is not a whole GPU")
        geometry = geometry_of(whole) or lookup(whole.name)
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
            _of_profile(table, asked, p, part_of_gpu(geometry, p), typed=typed),
            slice_platform(whole, geometry, p),
        )
        for p in profiles
    ]


def _of_profile(
    table: CandidateTable, asked: SlicesTable, profile: SliceProfile, part: float, *, typed: bool
) -> CandidateTable:
    name = profile.name
    price = table.price_per_gpu_hour
    return table.model_copy(
        update={
            "name": f"{table.name}-{name}",
            "platform": f"{table.platform}{MARK}{name}",
            "partition": table.partition.replace(SLICE_MARK, name),
            "constraint": table.constraint and table.constraint.replace(SLICE_MARK, name),
            "gres": f"gpu:{asked.type_pattern.replace(SLICE_MARK, name)}" if typed else None,
            "gpus_per_node": (table.gpus_per_node or 1) * profile.max_instances,
            "price_per_gpu_hour": None if price is None else price * part,
            "slices": None,
        }
    )


def _in_own_terms(
    scheduler: type[SchedulerTraits],
    table: CandidateTable,
    platforms: Mapping[str, Platform],
    key: str,
    path: Path,
) -> CandidateTable:
    """Return the candidate's table with ``gres`` "gpu" where the scheduler has no GPU types."""
    platform = platforms.get(table.platform)
    if scheduler.typed_gpus or platform is None or not platform.is_gpu:
        return table
    if table.gres not in (None, "gpu"):
        raise DocumentError(
            path,
            f"is {table.gres!r}; {scheduler.title} counts GPUs and slices of every kind as `gpu`",
            key=f"{key}.gres",
            hint="leave it out, and give each kind a queue or a property of its own",
        )
    return table.model_copy(update={"gres": "gpu"})


def _candidate(
    table: CandidateTable,
    platforms: Mapping[str, Platform],
    key: str,
    path: Path,
) -> Candidate:
    platform = platforms[table.platform]
    sliced = platform.kind is PlatformKind.MIG
    cores = table.cores_per_node
    if platform.is_gpu:
        if cores is None:
            raise DocumentError(
                path,
                "is missing; a GPU platform does not tell the cores of its node",
                key=f"{key}.cores_per_node",
            )
        gpus = table.gpus_per_node or 1
    else:
        if table.gpus_per_node is not None or table.gres is not None:
            wrong = "gres" if table.gres is not None else "gpus_per_node"
            raise DocumentError(
                path, f"is for GPU platforms; {platform.name} is a CPU", key=f"{key}.{wrong}"
            )
        gpus, cores = 0, cores or platform.cores
    return Candidate(
        name=table.name,
        platform=platform.name,
        queue=table.partition,
        constraint=table.constraint,
        gres=table.gres,
        translation=table.translation,
        cores_per_node=cores,
        memory_bytes_per_node=table.memory_per_node
        if table.memory_per_node is not None or platform.is_gpu
        else int(platform.memory_bytes),
        gpus_per_node=gpus,
        gpu_memory_bytes=int(platform.memory_bytes) if platform.is_gpu else None,
        slice_of=platform.parent if sliced else None,
        slice_part=part_of(platform, platforms) if sliced else 1.0,
        nodes=table.nodes,
        features=table.features,
        max_time_s=table.max_time,
        default_time_s=table.default_time,
        **_prices(table, platform, cores),
        **powers(table, platform, cores),
        targets=tuple(t.value for t in table.targets or platform.targets),
        architecture=table.architecture or platform.architecture,
        instruction_sets=platform.instruction_sets
        if table.instruction_sets is None
        else table.instruction_sets,
        allowed_users=_names(table.users),
        allowed_accounts=_names(table.accounts),
        allowed_qos=_names(table.qos),
        speed_rank=0,
        scarce=False,
        by_fit=table.by_fit,
    )


def _prices(table: CandidateTable, platform: Platform, cores: int) -> dict[str, float | None]:
    """Return the candidate's own prices by key; if it has none, the price of its platform."""
    own = {
        "price_per_gpu_hour": table.price_per_gpu_hour,
        "price_per_core_hour": table.price_per_core_hour,
    }
    if platform.price_per_hour is not None and all(price is None for price in own.values()):
        if platform.is_gpu:
            own["price_per_gpu_hour"] = platform.price_per_hour
        else:
            own["price_per_core_hour"] = platform.price_per_hour / cores
    return own


def _names(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def platform_named(name: str, platforms: Mapping[str, Platform], key: str, path: Path) -> Platform:
    """Return the platform of that name; a slice ``GPU-mig-PROFILE`` is derived from its GPU.

    Raises DocumentError where the name is unknown.
    """
    platform = platforms.get(name) or derived(name, platforms)
    if platform is None:
        raise unknown_platform(path, key, name, platforms)
    return platform


def unknown_platform(path: Path, key: str, name: str, known: Iterable[str]) -> DocumentError:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else "`berth site platform list` shows the shipped ones"
    )
    return DocumentError(path, f"there is no platform {name!r}", key=key, hint=hint)
