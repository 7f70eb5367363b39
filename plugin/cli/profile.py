"""``berth profile``: the profiles in the store, and what is predicted from them."""

from __future__ import annotations

import getpass
import json
import time
from pathlib import Path

import click

from berth.pilot.documents import parse_json, read_json, validate
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.profile import Profile
from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.columns import columns
from berth.plugin.cli.where import find_site, open_store, store_options
from berth.plugin.daemon.fingerprint import fingerprint
from berth.plugin.daemon.messages import MAX_SCRIPT_BYTES
from berth.plugin.profiles import add_profile, platforms_for, refresh, stored_profile
from berth.plugin.store.records import FingerprintRecord, ProfileRecord

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
    replace: bool,
    bundle: Path | None,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Store the profile in FILE and predict from it for every platform.

    A running daemon sees it within a second.

    \b
    Example:
      berth profile add stream.json --script job.sh --argument big.inp
    """
    measured = read_json(file, Profile)
    if name is not None:
        measured = _renamed(measured, name)
    if size is not None and not size > 0:
        raise UsageError(f"--size {size:g} is not a positive number")
    digest = None if script is None else fingerprint(_read_script(script), arguments)
    site = find_site(site_file)
    store = open_store(site_file, store_url)
    from berth.predictor.predictor import Predictor  # noqa: PLC0415 - loads onnxruntime

    forecast = add_profile(
        store,
        measured,
        predictor=Predictor.load(bundle),
        platforms=platforms_for(site),
        owner=getpass.getuser(),
        replace=replace,
    )
    if digest is not None:
        store.attach_script(FingerprintRecord(digest, measured.name, size, time.time()))
    if json_:
        click.echo(
            json.dumps(
                {
                    "profile": measured.name,
                    "store": store.name,
                    "bundle": forecast.bundle,
                    "platforms": sorted(forecast.curves),
                    "fingerprint": digest,
                }
            )
        )
        return
    click.echo(f"{measured.name}: predicted for {len(forecast.curves)} platforms ({store.name})")
    if digest is not None:
        click.echo(f"jobs of {script} use it by themselves ({digest[:19]}...)")
    click.echo(f"other jobs name it: --comment=berth:{measured.name}")


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
    rows = [(r, _parsed(r), store.forecasts(r.name)) for r in store.profiles()]
    if json_:
        found = [
            {
                "name": r.name,
                "digest": r.digest,
                "owner": r.owner,
                "created_s": r.created_s,
                "runtime_s": p.runtime.median_s if p and p.runtime else None,
                "bundles": [f.bundle for f in forecasts],
            }
            for r, p, forecasts in rows
        ]
        click.echo(json.dumps(found, indent=2))
        return
    if not rows:
        click.echo("no profiles yet: berth pilot run -- CMD, then berth profile add FILE")
        return
    table = [
        [
            r.name,
            p.platform if p else "?",
            format_seconds(p.runtime.median_s) if p and p.runtime else "-",
            format_bytes(p.peak_memory_bytes) if p and p.peak_memory_bytes else "-",
            "yes" if forecasts else "no",
            r.owner,
            _day(r.created_s),
        ]
        for r, p, forecasts in rows
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
    measured = stored_profile(store, name)
    if json_:
        click.echo(measured.model_dump_json(indent=2, by_alias=True))
        return
    click.echo(f"{name}: {' '.join(measured.workload.command)}")
    runtime = measured.runtime
    click.echo(
        f"  measured on {measured.platform}, {measured.provenance.created}: "
        + (format_seconds(runtime.median_s) if runtime else "no runtime")
    )
    click.echo(f"  runs on {', '.join(measured.runs_on.targets)} ({measured.runs_on.architecture})")
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
    store = open_store(site_file, store_url)
    from berth.predictor.predictor import Predictor  # noqa: PLC0415 - loads onnxruntime

    made = refresh(
        store,
        names or [record.name for record in store.profiles()],
        predictor=Predictor.load(bundle),
        platforms=platforms_for(site),
    )
    click.echo(f"predicted again: {len(made)} profiles")


def _renamed(measured: Profile, name: str) -> Profile:
    data = measured.model_dump(mode="json", by_alias=True)
    return validate({**data, "name": name}, Profile, source="--name")


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


def _parsed(record: ProfileRecord) -> Profile | None:
    try:
        return parse_json(record.document, Profile, source=record.name)
    except DocumentError:
        return None


def _day(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(unix_s))
