"""``berth profile``: the profiles in the store, and what is predicted from them."""

from __future__ import annotations

import getpass
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from berth.pilot.documents import MAX_DOCUMENT_BYTES, Document, to_json, validate
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.profile import Profile
from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.columns import columns
from berth.plugin.cli.profile_text import SLICE_WORKLOAD, of_profile, of_workload, summary
from berth.plugin.cli.where import find_site, open_store, store_options
from berth.plugin.daemon.fingerprint import fingerprint
from berth.plugin.daemon.messages import MAX_SCRIPT_BYTES
from berth.plugin.site import Site
from berth.plugin.site.quantities import parse_duration_s
from berth.plugin.store import Store
from berth.plugin.store.records import FingerprintRecord
from berth.plugin.workloads import (
    add_workload,
    forecaster_for,
    platforms_for,
    reference_of,
    refresh,
    stored,
    stored_workload,
)
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.workload import read_workload, schema_of, workload_of

if TYPE_CHECKING:
    from berth.predictor.families.slices.workload import SliceWorkload

_bundle_option = click.option(
    "--bundle", type=click.Path(path_type=Path), help="Predictor bundle. Default: the shipped one."
)
_json_option = click.option("--json", "json_", is_flag=True, help="Print JSON.")


@click.group()
def profile() -> None:
    """Add measured profiles to the store, list, show and remove them.

    \b
    Example:
      berth profile add stream.json --script job.sh
      sbatch --partition=auto --comment=berth:stream job.sh
    """


@profile.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Store it under this name instead of the file's.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    help="Batch script whose jobs run this program: they need not name the profile.",
)
@click.option("--argument", "arguments", multiple=True, help="The script's arguments, in order.")
@click.option("--size", type=float, help="Problem size that the script runs.")
@click.option(
    "--runtime", help="Of a job on the whole GPU, e.g. 2h; only for workloads of MIG slices."
)
@click.option("--replace", is_flag=True, help="Replace a different profile of the same name.")
@_bundle_option
@_json_option
@store_options
def add(
    file: Path,
    *,
    name: str | None,
    script: Path | None,
    arguments: tuple[str, ...],
    size: float | None,
    runtime: str | None,
    replace: bool,
    bundle: Path | None,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Store the profile in FILE and predict from it for every platform.

    FILE may be a workload of MIG slices (berth.slice-workload/1): it is predicted on the slices
    of its GPU model, as by `berth mig recommend`. A running daemon sees it within a second.

    \b
    Example:
      berth profile add stream.json --script job.sh --argument big.inp
    """
    if size is not None and not size > 0:
        raise UsageError(f"--size {size:g} is not a positive number")
    of_slices = _is_of_slices(file)
    if runtime is not None and not of_slices:
        raise UsageError("--runtime is for workloads of MIG slices; a profile holds its own")
    measured = _read_workload(file, runtime) if of_slices else read_workload(file).document
    if name is not None:
        measured = _renamed(measured, name)
    workload = workload_of(measured)
    digest = None if script is None else fingerprint(_read_script(script), arguments)
    site = find_site(site_file)
    store = open_store(site_file, store_url)
    forecast = _add(measured, store, bundle, site, replace=replace)
    if digest is not None:
        store.attach_script(FingerprintRecord(digest, workload.name, size, time.time()))
    if json_:
        click.echo(
            json.dumps(
                {
                    "profile": workload.name,
                    "store": store.name,
                    "bundle": forecast.bundle,
                    "platforms": sorted(forecast.curves),
                    "fingerprint": digest,
                }
            )
        )
        return
    click.echo(f"{workload.name}: predicted for {len(forecast.curves)} platforms ({store.name})")
    if digest is not None:
        click.echo(f"jobs of {script} use it by themselves ({digest[:19]}...)")
    click.echo(f"other jobs name it: --comment=berth:{workload.name}")


def _add(
    measured: Document, store: Store, bundle: Path | None, site: Site | None, *, replace: bool
) -> Forecast:
    owner, platforms = getpass.getuser(), platforms_for(site)
    if getattr(measured, "schema_", None) == SLICE_WORKLOAD:
        from berth.plugin import slice_workloads  # noqa: PLC0415 - loads onnxruntime
        from berth.predictor.families.slices.workload import SliceWorkload  # noqa: PLC0415

        assert isinstance(measured, SliceWorkload)  # noqa: S101 - by its schema
        return slice_workloads.add_workload(
            store,
            measured,
            predictor=slice_workloads.slice_predictor(bundle),
            platforms=platforms,
            owner=owner,
            replace=replace,
        )
    return add_workload(
        store,
        workload_of(measured),
        forecaster=forecaster_for(site, (bundle,) if bundle else ()),
        platforms=platforms,
        owner=owner,
        reference=reference_of(site),
        replace=replace,
    )


def _is_of_slices(path: Path) -> bool:
    if path.suffix == ".toml":
        return True
    try:
        with path.open("rb") as stream:
            return schema_of(stream.read(MAX_DOCUMENT_BYTES + 1)) == SLICE_WORKLOAD
    except OSError:
        return False


@profile.command(name="list")
@_json_option
@store_options
def list_(*, json_: bool, site_file: Path | None, store_url: str | None) -> None:
    """List the profiles of the store.

    \b
    Example:
      berth profile list --json
    """
    store = open_store(site_file, store_url)
    rows = [(r, summary(r), store.forecasts(r.name)) for r in store.profiles()]
    if json_:
        found = [
            {
                "name": r.name,
                "digest": r.digest,
                "owner": r.owner,
                "created_s": r.created_s,
                "runtime_s": s.runtime_s,
                "bundles": [f.bundle for f in forecasts],
            }
            for r, s, forecasts in rows
        ]
        click.echo(json.dumps(found, indent=2))
        return
    if not rows:
        click.echo("no profiles yet: berth pilot run -- CMD, then berth profile add FILE")
        return
    table = [
        [
            r.name,
            s.measured_on,
            format_seconds(s.runtime_s) if s.runtime_s else "-",
            format_bytes(s.memory_bytes) if s.memory_bytes else "-",
            "yes" if forecasts else "no",
            r.owner,
            _day(r.created_s),
        ]
        for r, s, forecasts in rows
    ]
    header = ("NAME", "MEASURED ON", "RUNTIME", "MEMORY", "PREDICTED", "OWNER", "ADDED")
    click.echo(columns(header, table, indent=0))


@profile.command()
@click.argument("name")
@_json_option
@store_options
def show(name: str, *, json_: bool, site_file: Path | None, store_url: str | None) -> None:
    """Show one profile: what it is, what is predicted from it, which scripts use it.

    \b
    Example:
      berth profile show stream
    """
    store = open_store(site_file, store_url)
    record = stored(store, name)
    document = stored_workload(store, name).document
    if json_:
        click.echo(to_json(document).rstrip("\n"))
        return
    lines = of_profile(document) if isinstance(document, Profile) else of_workload(record)
    click.echo("\n".join(lines))
    for forecast in store.forecasts(name):
        click.echo(f"  predicted by bundle {forecast.bundle}, {_day(forecast.created_s)}")
    for script in store.fingerprints(name):
        size = "" if script.size is None else f" at size {script.size:g}"
        click.echo(f"  script {script.digest}{size}")


@profile.command()
@click.argument("names", nargs=-1, required=True)
@store_options
def remove(names: tuple[str, ...], *, site_file: Path | None, store_url: str | None) -> None:
    """Remove profiles with their forecasts; what was decided by them stays on record.

    \b
    Example:
      berth profile remove stream
    """
    store = open_store(site_file, store_url)
    missing = [name for name in names if not store.remove_profile(name)]
    if missing:
        raise UsageError(f"no profile named {', '.join(missing)} is in {store.name}")


@profile.command(name="refresh")
@click.argument("names", nargs=-1)
@_bundle_option
@store_options
def refresh_(
    names: tuple[str, ...],
    *,
    bundle: Path | None,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Predict again from stored profiles (all, or NAMES): after a new bundle or new platforms.

    \b
    Example:
      berth profile refresh
    """
    site = find_site(site_file)
    platforms = platforms_for(site)
    store = open_store(site_file, store_url)
    records = [stored(store, name) for name in names] or store.profiles()
    of_slices = [r for r in records if schema_of(r.document) == SLICE_WORKLOAD]
    others = [r.name for r in records if r not in of_slices]
    if others:
        refresh(
            store,
            others,
            forecaster=forecaster_for(site, (bundle,) if bundle else ()),
            platforms=platforms,
            reference=reference_of(site),
        )
    if of_slices:
        from berth.plugin.slice_workloads import (  # noqa: PLC0415
            refresh_workloads,
            slice_predictor,
        )

        refresh_workloads(
            store,
            of_slices,
            predictor=slice_predictor(None if others else bundle),
            platforms=platforms,
        )
    click.echo(f"predicted again: {len(records)} profiles")


def _read_workload(path: Path, runtime: str | None) -> SliceWorkload:
    from berth.plugin.slice_workloads import read_workload  # noqa: PLC0415 - loads onnxruntime

    found = read_workload(path)
    if runtime is None:
        return found
    try:
        return found.model_copy(update={"runtime_s": parse_duration_s(runtime)})
    except ValueError as error:
        raise UsageError(f"--runtime: {runtime!r} {error}") from None


M = TypeVar("M", bound=Document)


def _renamed(measured: M, name: str) -> M:
    data = measured.model_dump(mode="json", by_alias=True)
    return validate({**data, "name": name}, type(measured), source="--name")


def _read_script(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    if len(raw) > MAX_SCRIPT_BYTES:
        raise DocumentError(
            path,
            f"is larger than the {MAX_SCRIPT_BYTES} bytes that are looked at when jobs come",
            hint="let its jobs name the profile: --comment=berth:NAME",
        )
    return raw.decode("utf-8", "replace")


def _day(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(unix_s))
