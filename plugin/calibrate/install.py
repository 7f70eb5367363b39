"""Installs the results of a calibration: platform files, a bundle, and the site file's changes."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomlkit

from berth.pilot.documents import validate, write_json, write_text
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.platform import Platform
from berth.pilot.progress import steps
from berth.plugin.calibrate.state import BUNDLE_FOLDER, CALIBRATED, is_ours
from berth.plugin.first_site.write import PLATFORM_FOLDER
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.edit import changed_text, insert_after
from berth.plugin.site.load import build_site, load_site
from berth.plugin.site.site import Site


def install(
    site_file: Path, platforms: Sequence[Platform], bundle: Path, bundle_id: str, replaced: Path
) -> Site:
    """Put platforms and bundle beside the site file, name them in it, and return the new site.

    ``replaced``: the site's previous bundle of programs. The site file is written last and
    atomically, so the site is unchanged until then. Raises UsageError.
    """
    home = site_file.absolute().parent
    target = home / BUNDLE_FOLDER / f"{CALIBRATED}{bundle_id.removeprefix('berth-')}"
    text = site_file.read_text(encoding="utf-8")
    try:
        for platform in platforms:
            folder = home / PLATFORM_FOLDER
            folder.mkdir(exist_ok=True)
            write_json(folder / f"{platform.name}.json", platform)
        if target.exists():
            shutil.rmtree(target)
        target.parent.mkdir(exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(bundle, fresh)
        fresh.rename(target)
        files = {p.name: f"{PLATFORM_FOLDER}/{p.name}.json" for p in platforms}
        names = [str(target.relative_to(home))]
        names += [
            name
            for name in tomllib.loads(text).get("predictor", {}).get("bundles", [])
            if (home / name) != replaced and not is_ours(home / name)
        ]
        changed = with_calibration(text, files, names)
        document = validate(tomllib.loads(changed), SiteDocument, source=site_file)
        build_site(document, site_file)
        write_text(site_file, changed)
    except OSError as error:
        raise UsageError(
            f"{error.filename or home} cannot be written: {error.strerror}",
            hint="run berth site calibrate again as a user who may; nothing is measured twice",
        ) from None
    for old in target.parent.glob(f"{CALIBRATED}*"):
        if old != target and old == replaced:
            shutil.rmtree(old, ignore_errors=True)
    return load_site(site_file)


def with_calibration(text: str, files: Mapping[str, str], bundles: Sequence[str]) -> str:
    """Return the site file's text with these platform files and bundles, and no other change.

    Comments, order and spaces stay unchanged. Raises UsageError, with what to write by hand, where
    the text is written too unusually to be changed safely.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        for name, file in files.items():
            tables = document.get("platforms", [])
            own = next((table for table in tables if table.get("name") == name), None)
            if own is None:
                _add_platform(document, name, file)
            elif "file" in own:
                own["file"] = file
            else:
                insert_after(own, "name", "file", file)
        predictor = document.get("predictor")
        if predictor is None:
            predictor = document.setdefault("predictor", tomlkit.table())
        predictor["bundles"] = list(bundles)

    by_hand = [f"[predictor] bundles = {json.dumps(list(bundles))}"]
    by_hand += [f'[[platforms]] name = "{n}", file = "{f}"' for n, f in files.items()]
    wanted = _expected(tomllib.loads(text), files, bundles)
    return changed_text(text, change, wanted, "; ".join(by_hand))


def _add_platform(document: tomlkit.TOMLDocument, name: str, file: str) -> None:
    table = tomlkit.table()
    table["name"], table["file"] = name, file
    table.add(tomlkit.nl())
    tables = document.get("platforms")
    if tables is None:
        tables = tomlkit.aot()
        tables.append(table)
        document.append("platforms", tables)
    else:
        tables.append(table)


def _expected(
    before: Mapping[str, object], files: Mapping[str, str], bundles: Sequence[str]
) -> dict[str, object]:
    """Return what the changed file must contain, as parsed TOML."""
    expected = json.loads(json.dumps(before, default=str))
    tables = expected.setdefault("platforms", [])
    for name, file in files.items():
        own = next((t for t in tables if t.get("name") == name), None)
        if own is None:
            tables.append({"name": name, "file": file})
        else:
            own["file"] = file
    if not tables:
        del expected["platforms"]
    expected.setdefault("predictor", {})["bundles"] = list(bundles)
    return dict(expected)


def refresh_forecasts(site: Site) -> str:
    """Predict the store's workloads with the calibrated site; return a sentence on the result.

    Where no job has ended yet, unknown programs are predicted by the kernels that were measured.
    """
    from berth.plugin.forecasting import (  # noqa: PLC0415 - loads every family
        forecaster_for,
        platforms_for,
        reference_of,
    )
    from berth.plugin.history.workloads import add_unknown_programs  # noqa: PLC0415
    from berth.plugin.store import Store  # noqa: PLC0415
    from berth.plugin.workloads.filing import refresh  # noqa: PLC0415

    again = f"berth workload refresh --site {site.source}"
    try:
        store = Store.open(site.daemon.store, create=False)
    except BerthError as error:
        return f"No stored workload was predicted again ({error.message}); later: {again}."
    names, failed = [record.name for record in store.workloads()], []
    forecaster, platforms = forecaster_for(site), platforms_for(site)
    for name in steps("workloads predicted again", names):
        try:
            refresh(
                store,
                [name],
                forecaster=forecaster,
                platforms=platforms,
                reference=reference_of(site),
            )
        except BerthError as error:
            failed.append(f"{name} ({error.message})")
    if not store.past_jobs.count():
        add_unknown_programs(store, site, forecaster=forecaster, platforms=platforms)
    store.close()
    done = f"{len(names) - len(failed)} stored workloads were predicted again."
    return f"{done} Not predicted: {'; '.join(failed)}." if failed else done
