"""What a Caliper or Thicket file says of the run as a whole (Adiak's and RAJAPerf's facts)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from berth.pilot.importers.reading import Reading
from berth.pilot.importers.records import Table, number
from berth.pilot.importers.tree import RANK_COLUMNS, regions
from berth.pilot.profile import Target

ARCHITECTURES = ("x86_64", "ppc64le", "aarch64")
RANKS = ("mpi.world.size", "jobsize", "numprocs")
VARIANT_TARGETS = {"CUDA": Target.CUDA, "HIP": Target.HIP}


def reading(
    table: Table, path: Path, *, tool: str, sources: tuple[str, ...], time_factor: float | None
) -> Reading:
    """The Reading of one Table."""
    facts = table.facts
    ranks = _count(facts, RANKS) or _ranks_seen(table)
    found, warnings = regions(table, path, time_factor=time_factor, ranks=ranks)
    version = facts.get("cali.caliper.version", "")
    return Reading(
        tool=tool,
        sources=sources,
        regions=found,
        version=version,
        measured=_when(facts.get("launchdate", "")),
        command=_command(facts),
        targets=_targets(facts),
        architecture=_architecture(facts),
        threads=_threads(facts),
        ranks=ranks,
        warnings=warnings,
    )


def _ranks_seen(table: Table) -> int | None:
    """How many ranks have rows of their own; None: rows do not tell their rank."""
    columns = [c for c in RANK_COLUMNS if any(c in r.numbers for r in table.records)]
    if not columns:
        return None
    return len({r.numbers[columns[0]] for r in table.records if columns[0] in r.numbers})


def _targets(facts: Mapping[str, str]) -> tuple[Target, ...] | None:
    """RAJAPerf names its back end in the variant (``Base_CUDA``, ``RAJA_HIP``, ``Base_Seq``)."""
    variant = facts.get("variant")
    if variant is None:
        return None
    return (VARIANT_TARGETS.get(variant.rpartition("_")[2], Target.CPU),)


def _threads(facts: Mapping[str, str]) -> int | None:
    variant = facts.get("variant")
    if variant is not None:
        return _count(facts, ("omp_max_threads",)) if variant.endswith("OpenMP") else 1
    return _count(facts, ("threads", "omp.num.threads"))


def _architecture(facts: Mapping[str, str]) -> str | None:
    system = " ".join(facts.get(key, "") for key in ("systype_build", "sys_type", "arch"))
    return next((name for name in ARCHITECTURES if name in system), None)


def _count(facts: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        found = number(facts.get(name, ""))
        if found is not None and found >= 1 and found == int(found):
            return int(found)
    return None


def _command(facts: Mapping[str, str]) -> tuple[str, ...]:
    text = facts.get("cmdline", "").strip()
    words = text[1:-1].split(",") if text.startswith("[") else text.split()
    return tuple(word for word in words if word)[:10_000]


def _when(text: str) -> str:
    if re.fullmatch(r"\d{9,11}", text):
        return datetime.fromtimestamp(int(text), UTC).isoformat(timespec="seconds")
    return text[:64]
