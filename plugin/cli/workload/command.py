"""``berth workload``: manages the workloads in the store, and their forecasts."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import PATH, answer, json_option, store_options
from berth.plugin.cli.workload.options import workload_options
from berth.plugin.cli.workload.sharing import digest_of_file, script_text, store_workload
from berth.plugin.fingerprint import fingerprint
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.installed_site import Installation
from berth.plugin.report.of_forecast import (
    best_points,
    doubts,
    forecast_data,
    per,
    predictions_table,
    rows_of,
    without_code,
)
from berth.plugin.report.of_store import (
    WORKLOADS,
    day,
    described,
    learnt_text,
    stored_data,
    stored_row,
)
from berth.plugin.report.parts import Table
from berth.plugin.report.terminal import table_text
from berth.plugin.site import Site
from berth.plugin.store import Store
from berth.plugin.store.records import FingerprintRecord
from berth.plugin.users.client import RemoteStore
from berth.plugin.workloads.files import WorkloadOptions, following_shape, read_file
from berth.plugin.workloads.filing import (
    others_of_name,
    refresh,
    stored_for,
    with_nodes,
    workload_in,
)
from berth.plugin.workloads.names import caller, check_name
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.workload import Workload

if TYPE_CHECKING:
    from berth.plugin.learning.shown import Moved

SHOWN = 5
"""Platforms in the first view of a workload."""


@click.command()
@click.argument("file", type=PATH)
@click.argument("others", nargs=-1, type=PATH)
@click.option("--name", help="Store it under this name [the file's].")
@click.option(
    "--script", type=PATH, help="Batch script whose jobs run it: they need not name the workload."
)
@click.option(
    "--for-file",
    type=PATH,
    help="Jobs that name this file (--comment=berth-file:PATH) run it, whatever their script.",
)
@click.option("--argument", "arguments", multiple=True, help="The script's arguments, in order.")
@click.option("--size", type=float, help="Problem size that the script runs.")
@click.option("--replace", is_flag=True, help="Replace a different workload of the same name.")
@click.option("--share", is_flag=True, help="Ask that it serve all users, not only you.")
@click.option(
    "--follows-shape",
    is_flag=True,
    help="Its job script takes SLURM_NTASKS and SLURM_CPUS_PER_TASK: both may change.",
)
@workload_options
@json_option
@store_options
def add(
    file: Path,
    others: tuple[Path, ...],
    *,
    described: WorkloadOptions,
    name: str | None,
    script: Path | None,
    for_file: Path | None,
    arguments: tuple[str, ...],
    size: float | None,
    replace: bool,
    share: bool,
    follows_shape: bool,
    json_: bool,
    installation: Installation,
) -> None:
    """Store the workload in FILE and predict it on every platform.

    FILE is a Profile of `berth pilot run`, an ONNX file, the config.json of a Hugging Face model
    (a decoder is a served language model, anything else one run of its graph), TOML of MIG slices,
    or a document of a berth.*-workload/1 schema. A running daemon sees it within a second.
    OTHERS are profiles of the same program on other numbers of nodes of the same platform.

    Where the site serves users, the workload is yours (USER/NAME) and places your jobs only,
    until an admin shares it.

    \b
    Example:
      berth workload add stream.json --script job.sh --argument big.inp
      berth workload add lmp-n1.json lmp-n2.json lmp-n4.json
      berth workload add bert.onnx --batch 32 --dim sequence=128 --amount "10000 requests"
      berth workload add llama/config.json --batch 16 --amount "1e6 tokens"
    """
    if size is not None and not size > 0:
        raise UsageError(f"--size {size:g} is not a positive number")
    owned = name is not None and "/" in name
    new_workload = read_file(file, described if owned else _named(described, name))
    new_workload, _ = with_nodes(new_workload, others, all_of_them=True)
    new_workload = following_shape(new_workload) if follows_shape else new_workload
    new_workload = dataclasses.replace(new_workload, name=name or new_workload.name)
    if script is not None and for_file is not None:
        raise UsageError("give --script or --for-file", hint="the other one in a second call")
    digest = None if script is None else fingerprint(script_text(script), arguments)
    if for_file is not None:
        digest = digest_of_file(for_file)
    users = installation.users_socket()
    store: Store | RemoteStore
    if users is not None:
        store, document = RemoteStore(users), to_json(new_workload.document)
        added, forecast, shared = store.add(
            document, name=new_workload.name, replace=replace, share=share, script=digest, size=size
        )
        new_workload = dataclasses.replace(new_workload, name=added)
    else:
        check_name(new_workload.name)
        shared, site = new_workload.name, installation.site()
        store = direct = installation.store()
        forecast = store_workload(new_workload, direct, site, replace=replace)
        if digest is not None:
            direct.attach_script(FingerprintRecord(digest, new_workload.name, size, time.time()))
    written = {
        "workload": new_workload.name,
        "kind": new_workload.kind,
        "unit": forecast.unit.value,
        "store": store.name,
        "bundle": forecast.bundle,
        "families": list(forecast.families),
        "platforms": sorted(forecast.curves),
        "fingerprint": digest,
    }
    lines = [
        f"{new_workload.name} ({new_workload.kind}): predicted {per(forecast)} on "
        f"{len(forecast.curves)} platforms ({store.name})"
    ]
    if not forecast.whole_job:
        lines.append("how much work a job does is not known (--amount): no time limit is judged")
    if digest is not None:
        whose = f"jobs of {script}" if for_file is None else f"jobs with berth-file:{for_file}"
        lines.append(f"{whose} use it by themselves ({digest[:19]}...)")
    lines.append(f"other jobs name it: --comment=berth:{new_workload.name.rpartition('/')[2]}")
    if share and shared is None:
        lines.append("it serves your jobs; an admin is asked to share it with all")
    answer("\n".join(lines), written, json_=json_)


@click.command(name="list")
@json_option
@store_options
def list_(*, json_: bool, installation: Installation) -> None:
    """List the workloads of the store.

    \b
    Example:
      berth workload list --json
    """
    store = installation.view()
    records = store.workloads()
    bundles = store.bundles([r.name for r in records])
    rows = [stored_row(record, bundles.get(record.name, [])) for record in records]
    none_yet = "no workloads yet: berth pilot run -- CMD, then berth workload add FILE"
    answer(
        Table("Workloads", WORKLOADS, rows, if_empty=none_yet),
        [stored_data(row) for row in rows],
        json_=json_,
    )


@click.command()
@click.argument("name")
@json_option
@store_options
def show(name: str, *, json_: bool, installation: Installation) -> None:
    """Show one workload: what it is, what is predicted of it, which scripts use it.

    \b
    Example:
      berth workload show stream
    """
    store = installation.view()
    record = stored_for(store, name, caller())
    stored = workload_in(store, record)
    newest = next(iter(store.forecasts(record.name)), None)
    forecast = None if newest is None else Forecast.from_json(newest.document)
    scripts = store.fingerprints(record.name)
    learnt = _learnt(store, record.name, installation)
    if json_:
        document = stored.document.model_dump(mode="json", by_alias=True)
        shown = {
            "name": stored.name,
            "kind": stored.kind,
            "amount": stored.amount.model_dump(mode="json"),
            "digest": stored.digest,
            "owner": record.owner,
            "created_s": record.created_s,
            "document": document,
            "forecast": None if forecast is None else forecast_data(forecast),
            "learnt": [dataclasses.asdict(moved_job) for moved_job in learnt],
            "scripts": [{"digest": s.digest, "size": s.size} for s in scripts],
        }
        click.echo(json.dumps(shown, indent=2))
        return
    click.echo("\n".join(described(stored)))
    if forecast is None or newest is None:
        click.echo(f"  nothing is predicted yet: berth workload refresh {record.name}")
    else:
        bundle = f" by bundle {newest.bundle}" if newest.bundle else ""
        click.echo(f"  predicted {per(forecast)}{bundle}, {day(newest.created_s)}")
        site = installation.site_of_store()
        runs_on = stored.runs_on
        no_code = without_code(runs_on.targets, runs_on.architecture, platforms_for(site))
        rows = best_points(forecast, no_code)
        table = predictions_table("", rows_of(forecast, rows[:SHOWN], no_code))
        click.echo(table_text(table, indent=2))
        if len(rows) > SHOWN:
            click.echo(f"  and {len(rows) - SHOWN} more: --json, or berth predict FILE")
        for line in doubts(rows[:SHOWN]):
            click.echo(f"  {line}")
    for line in learnt_text(learnt):
        click.echo(line)
    for script in scripts:
        label = "key of the jobs that match" if stored.kind == "history" else "script"
        size = "" if script.size is None else f" at size {script.size:g}"
        click.echo(f"  {label}: {script.digest}{size}")


def _learnt(store: Store | RemoteStore, name: str, installation: Installation) -> list[Moved]:
    """Return what finished jobs taught; nothing over the users' socket, which does not tell it."""
    if not isinstance(store, Store) or not store.learning.inputs(name):
        return []
    from berth.plugin.learning.shown import moved  # noqa: PLC0415 - numpy, seldom needed

    site = installation.site_of_store()
    return moved(store, name, everybody=site is not None and site.learning.everybody)


@click.command()
@click.argument("names", nargs=-1, required=True)
@json_option
@store_options
def remove(names: tuple[str, ...], *, json_: bool, installation: Installation) -> None:
    """Remove workloads with their forecasts; what was decided by them stays on record.

    \b
    Example:
      berth workload remove stream
    """
    store = installation.changed()
    user = caller()
    gone, missing, others = [], [], []
    for name in names:
        own = None if "/" in name else store.workload(f"{user}/{name}")
        record = own or store.workload(name)
        if record is not None and store.remove_workload(record.name):
            gone.append(record.name)
        else:  # another user's is never removed by half of its name
            missing.append(name)
            others += [other.name for other in others_of_name(store, name)]
    if json_ or gone:
        answer(f"removed {', '.join(gone)}", {"removed": gone, "missing": missing}, json_=json_)
    if missing:
        raise UsageError(
            f"no workload named {', '.join(missing)} is in {store.name}",
            hint=f"name it in full: {', '.join(others)}" if others else "see: berth workload list",
        )


@click.command(name="refresh")
@click.argument("names", nargs=-1)
@json_option
@store_options
def refresh_(
    names: tuple[str, ...],
    *,
    json_: bool,
    installation: Installation,
) -> None:
    """Predict stored workloads again (all, or NAMES): after a new bundle or new platforms.

    \b
    Example:
      berth workload refresh
    """
    site, users = installation.site(), installation.users_socket()
    if users is not None:
        done = RemoteStore(users).refresh(names)
    else:
        store = installation.store(create=False)
        user = caller()
        records = [stored_for(store, name, user) for name in names] or store.workloads()
        wanted = [workload_in(store, record) for record in records]
        done = _refresh(wanted, store, site)
    answer(f"predicted again: {len(done)} workloads", {"refreshed": done}, json_=json_)


def _refresh(wanted: list[Workload], store: Store, site: Site | None) -> list[str]:
    names = [each.name for each in wanted]
    refresh(
        store,
        names,
        forecaster=forecaster_for(site),
        platforms=platforms_for(site),
        reference=reference_of(site),
    )
    return names


def _named(options: WorkloadOptions, name: str | None) -> WorkloadOptions:
    return options if name is None else dataclasses.replace(options, name=name)
