"""What a calibration made, put into the site: platform files, the bundle, the site file."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from berth.pilot.documents import validate, write_json, write_text
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.platform import Platform
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site, load_site
from berth.plugin.site.site import Site
from berth.plugin.site.write import PLATFORM_FOLDER

BUNDLE_FOLDER = "bundles"
CALIBRATED = "calibrated-"
"""How folders of bundles that calibration made begin."""
_HEADER = re.compile(r"^\s*\[\[?\s*([^\]\s]+)\s*\]\]?\s*(#.*)?$")


def is_ours(folder: Path) -> bool:
    """Whether calibration made this bundle."""
    return folder.parent.name == BUNDLE_FOLDER and folder.name.startswith(CALIBRATED)


def install(
    site_file: Path, platforms: Sequence[Platform], bundle: Path, bundle_id: str, replaced: Path
) -> Site:
    """Put platforms and bundle beside the site file and name them there; the new site.

    ``replaced``: the bundle of programs that the site had. The site file is written last and at
    once: until then everything is as it was. Raises UsageError.
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
        made = target.with_name(f".{target.name}.new")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(bundle, made)
        made.rename(target)
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
            hint="run berth calibrate again as a user who may; nothing is measured twice",
        ) from None
    for old in target.parent.glob(f"{CALIBRATED}*"):
        if old != target and old == replaced:
            shutil.rmtree(old, ignore_errors=True)
    return load_site(site_file)


def with_calibration(text: str, files: Mapping[str, str], bundles: Sequence[str]) -> str:
    """The site file's text with these platform files and bundles; all else stays as it is.

    Raises UsageError, with the lines to write by hand, where it is written too unusually.
    """
    before = tomllib.loads(text)
    lines = text.splitlines()
    for name, file in files.items():
        lines = _with_platform(lines, name, file)
    lines = _with_bundles(lines, bundles)
    changed = "\n".join(lines) + "\n"
    try:
        after = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        after = {}
    if after != _expected(before, files, bundles):
        wanted = [f"[predictor] bundles = {json.dumps(list(bundles))}"]
        wanted += [f'[[platforms]] name = "{n}", file = "{f}"' for n, f in files.items()]
        raise UsageError(
            "the site file is written in a way that cannot be changed line by line",
            hint="write there yourself: " + "; ".join(wanted),
        )
    return changed


def _expected(
    before: Mapping[str, object], files: Mapping[str, str], bundles: Sequence[str]
) -> dict[str, object]:
    """What the changed file must mean."""
    found = json.loads(json.dumps(before, default=str))
    tables = found.setdefault("platforms", [])
    for name, file in files.items():
        own = next((t for t in tables if t.get("name") == name), None)
        if own is None:
            tables.append({"name": name, "file": file})
        else:
            own["file"] = file
    if not tables:
        del found["platforms"]
    found.setdefault("predictor", {})["bundles"] = list(bundles)
    return dict(found)


def _blocks(lines: Sequence[str], header: str) -> list[tuple[int, int]]:
    """First line after each ``[header]`` or ``[[header]]``, and the line after its last."""
    heads = [(i, m.group(1)) for i, line in enumerate(lines) if (m := _HEADER.match(line))]
    ends = [*(i for i, _ in heads), len(lines)][1:]
    return [(i + 1, end) for (i, name), end in zip(heads, ends, strict=True) if name == header]


def _with_platform(lines: list[str], name: str, file: str) -> list[str]:
    for start, end in _blocks(lines, "platforms"):
        own = lines[start:end]
        if not any(re.match(rf"\s*name\s*=\s*[\"']{re.escape(name)}[\"']", x) for x in own):
            continue
        rest = [line for line in own if not re.match(r"\s*file\s*=", line)]
        at = next(i for i, line in enumerate(rest) if re.match(r"\s*name\s*=", line)) + 1
        return [*lines[:start], *rest[:at], f"file = {json.dumps(file)}", *rest[at:], *lines[end:]]
    return [*lines, "", "[[platforms]]", f"name = {json.dumps(name)}", f"file = {json.dumps(file)}"]


def _with_bundles(lines: list[str], bundles: Sequence[str]) -> list[str]:
    new = f"bundles = {json.dumps(list(bundles))}"
    for start, end in _blocks(lines, "predictor"):
        own = lines[start:end]
        at = next((i for i, line in enumerate(own) if re.match(r"\s*bundles\s*=", line)), None)
        if at is None:
            return [*lines[:start], new, *lines[start:]]
        last = next((i for i in range(at, len(own)) if "]" in own[i]), at)
        return [*lines[: start + at], new, *own[last + 1 :], *lines[end:]]
    return [*lines, "", "[predictor]", new]


def refresh_forecasts(site: Site) -> str:
    """Predict the store's workloads with the site as it is now; a sentence about it."""
    from berth.plugin.forecasting import (  # noqa: PLC0415 - loads every family
        forecaster_for,
        platforms_for,
        reference_of,
    )
    from berth.plugin.store import Store  # noqa: PLC0415
    from berth.plugin.workloads import refresh  # noqa: PLC0415

    again = f"berth workload refresh --site {site.source}"
    try:
        store = Store.open(site.daemon.store, create=False)
    except BerthError as error:
        return f"The store could not be opened here ({error.message}): where it is, run {again}."
    names, failed = [record.name for record in store.workloads()], []
    forecaster, platforms = forecaster_for(site), platforms_for(site)
    for name in names:
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
    store.close()
    done = f"{len(names) - len(failed)} stored workloads were predicted again."
    return f"{done} Not predicted: {'; '.join(failed)}." if failed else done
