"""Assembles a site's forecaster, platforms and reference platform, without opening the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.plugin.workloads.files import title
from berth.predictor.core.bundle import schema_of_bundle
from berth.predictor.core.family import FAMILIES
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload
from berth.predictor.hardware import platforms as known_platforms
from berth.predictor.hardware.mig.slices import every_slice

if TYPE_CHECKING:
    from berth.plugin.site.site import Site


def forecaster_for(site: Site | None, bundles: Iterable[Path] = ()) -> Forecaster:
    """Return a forecaster with the named bundles, or else those of the site file.

    Raises DocumentError and UsageError.
    """
    named = tuple(bundles)
    return Forecaster(named or (site.bundles if site else ()))


def counted_bundle(site: Site) -> Path | None:
    """Return the site's first bundle that predicts programs from counters; None: no bundle of the
    site needs them."""
    readers = {
        schema
        for entry in FAMILIES.load_all().values()
        if entry.needs_counters
        for schema in entry.bundle_readers
    }
    return next((folder for folder in site.bundles if schema_of_bundle(folder) in readers), None)


def bundles_for(
    forecaster: Forecaster, workload: Workload, bundles: Iterable[Path], site: Site | None
) -> dict[str, Path]:
    """Return, by schema, the named or the site's bundles that predict this workload.

    Raises UsageError for a named bundle that predicts nothing of this kind of workload.
    """
    entries = FAMILIES.load_all()
    kinds = {s: e.kinds for e in entries.values() for s in e.bundle_readers}
    taken = {
        schema
        for family in forecaster.families(workload)
        for schema in getattr(entries.get(family.name), "bundle_readers", ())
    }
    named = tuple(bundles)
    folders = {
        schema_of_bundle(folder): folder for folder in named or (site.bundles if site else ())
    }
    if workload.kind == "program" and named:
        # That bundle's reader best explains why it has no prediction for a program.
        taken |= {schema for schema, own in kinds.items() if "program" in own}
    stray = next((unused for unused in folders if unused not in taken), None)
    if stray is not None and named:
        raise UsageError(
            f"{folders[stray]} is a bundle of {stray}, which predicts nothing of "
            f"{title(workload.kind)}",
            hint=f"such workloads take: {', '.join(sorted(taken)) or 'no bundle'}",
        )
    return {schema: folder for schema, folder in folders.items() if schema in taken}


def reference_of(site: Site | None) -> str | None:
    """Return the platform that speedups are relative to, for workloads without a measurement."""
    return site.reference_platform if site else None


def platforms_for(site: Site | None) -> Mapping[str, Platform]:
    """Return all platforms that a forecast covers, by name: shipped ones, the site's own, and MIG
    slices.
    """
    return with_slices({**known_platforms.load(), **(site.platforms if site else {})})


def with_slices(known: Mapping[str, Platform]) -> Mapping[str, Platform]:
    """Return ``known`` with the MIG slices of its GPUs added; slices that ``known`` has stay
    unchanged.
    """
    return {**{platform.name: platform for platform in every_slice(known)}, **known}
