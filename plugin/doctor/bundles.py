"""Doctor's checks of bundles and of the forecasts made with them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.pilot.instruction_sets import unknown
from berth.plugin.bundle_readers import reader_of
from berth.plugin.calibrate.state import CALIBRATED, program_bundle
from berth.plugin.findings import Findings, fail, ok, warn
from berth.plugin.first_site.stub import STUB_MARK
from berth.plugin.site.site import Site
from berth.plugin.store import ForecastRecord
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    id_of_bundle,
    schema_of_bundle,
)
from berth.predictor.core.forecast import FORECAST_SCHEMA
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE, verify
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS


def check_bundles(site: Site) -> Findings:
    """Check the shipped bundle, and each bundle of the site file."""
    manifest = verify(DEFAULT_BUNDLE)
    labelled = ", ".join(entry.platform for entry in manifest.labelled)
    yield ok("bundle", f"{manifest.id}, calibrated for {labelled}")
    seen: dict[str, Path] = {}
    for folder in site.bundles:
        advice = "correct [predictor] bundles in the site file"
        try:
            manifest_there = reader_of(folder).verify(folder)
            schema = schema_of_bundle(folder)
        except BerthError as error:
            again = (
                f"berth site calibrate --site {site.source} installs it again; nothing is measured"
            )
            is_calibrated = folder.name.startswith(CALIBRATED)
            yield fail("bundle", error.message, again if is_calibrated else error.hint or advice)
            continue
        if schema in seen:
            text = f"{folder} and {seen[schema]} are both of schema {schema}"
            yield fail("bundle", text, advice)
            continue
        seen[schema] = folder
        yield ok("bundle", f"{folder}: {manifest_there.id}, in place of shipped {schema}")


def check_candidates(site: Site) -> Findings:
    """Warn of platforms without measurements, and of candidates that the submit filter never
    chooses."""
    calibrate = f"berth site calibrate --site {site.source}"
    labelled = _labelled(site)
    for platform in site.platforms.values():
        if STUB_MARK in platform.description:
            yield warn(
                "platform",
                f"{platform.name} is a stub: rules of thumb, nothing measured",
                calibrate,
            )
    sets = {c.name: c.instruction_sets for c in site.candidates}
    sets |= {p.name: p.instruction_sets for p in site.platforms.values()}
    for name, words in sets.items():
        if strange := unknown(words):
            yield warn(
                "platform",
                f"{name}: no instruction set is known by the name of {', '.join(strange)}; kept, "
                "and asked of by programs that need one of that very name",
                "write those that docs/platforms.md lists, as x86-64-v3 or avx512_bf16",
            )
    if site.policy.allow_prior:
        return
    for name in dict.fromkeys(c.platform for c in site.candidates):
        if name in labelled:
            continue
        names = ", ".join(c.name for c in site.candidates if c.platform == name)
        text = f"{names}: no program goes there by its predicted time: "
        if site.platforms[name].is_gpu:
            yield ok("placement", f"{text}models and slices do, and jobs that ask for GPUs by fit")
        else:
            yield warn(
                "placement", f"{text}nothing was measured on {name} (a prior only)", calibrate
            )


def _labelled(site: Site) -> set[str]:
    """Return the platforms for which the site's bundle of programs has a calibrated interval."""
    try:
        manifest = verify(program_bundle(site.bundles))
    except BerthError:
        return set()
    return {e.platform for e in manifest.labelled if e.kernels >= CALIBRATED_KERNELS}


def check_forecasts(
    site: Site, forecasts: Iterable[ForecastRecord], without: Iterable[str]
) -> Findings:
    """Warn of workloads without a forecast, or with one by an older Berth or by other bundles."""
    current = _present_ids(site)
    older, other = 0, len(list(without))
    for record in forecasts:
        if _schema(record.document) != FORECAST_SCHEMA:
            older += 1
        elif not set(filter(None, record.bundle.split("+"))) <= current:
            other += 1
    if older:
        yield warn(
            "forecasts",
            f"{older} forecasts were made by another version of Berth and are not read",
            f"berth workload refresh --site {site.source}",
        )
    if other:
        yield warn(
            "forecasts",
            f"{other} workloads are not predicted by the present bundles",
            f"berth workload refresh --site {site.source}",
        )


def _present_ids(site: Site) -> set[str]:
    """Return the ids of the site's bundles, and of the shipped ones that they do not replace.

    Only manifests are read; ``check_bundles`` checks the other files.
    """
    ids: dict[str, str] = {}
    shipped = (path for path in SHIPPED_BUNDLES.iterdir() if path.is_dir())
    for folder in (*shipped, *site.bundles):
        try:
            ids[schema_of_bundle(folder)] = id_of_bundle(folder)
        except BerthError:
            continue
    return set(ids.values())


def _schema(document: str) -> str:
    try:
        return str(json.loads(document).get("schema"))
    except (ValueError, AttributeError, RecursionError):
        return ""
