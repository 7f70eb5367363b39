"""``berth site calibrate``: measures each kind of node through the scheduler, and learns from
it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import counted, format_seconds
from berth.plugin.calibrate.jobs import (
    EXPECTED_S,
    LINK_S,
    CalibrationProgress,
    CalibrationSettings,
    Todo,
    follow,
    plan,
)
from berth.plugin.calibrate.kinds import CalibratedKind, kinds_of, named_kinds
from berth.plugin.calibrate.state import (
    FOLDER,
    CalibrationState,
    Folder,
    drivers_seen,
    is_ours,
    program_bundle,
)
from berth.plugin.cli.options import DIRECTORY, as_seconds, json_option, site_option
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.parts import Part
from berth.plugin.report.progress_bars import saying
from berth.plugin.report.terminal import part_text
from berth.plugin.scheduler import ClusterFacts, Scheduler
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site.site import Site
from berth.plugin.site_file import SITE_FILE, find_site


@click.command(epilog="Example: berth site calibrate --site /etc/berth/berth.toml --dry-run")
@site_option
@click.option("--dry-run", is_flag=True, help="Say what would be measured; submit nothing.")
@click.option(
    "--kind", "kinds", multiple=True, help="Measure only this platform, or that of this place."
)
@click.option("--quick", is_flag=True, help="Few kernels: a minute a node.")
@click.option("--full", is_flag=True, help="Every step longer: nine minutes a node.")
@click.option(
    "--nodes",
    "nodes_per_kind",
    type=click.IntRange(1, 100),
    default=3,
    help="Measure so many nodes of each kind.",
)
@click.option("--time-limit", "time_limit_s", callback=as_seconds, default="30m",
              help="Time limit of each job.")  # fmt: skip
@click.option(
    "--wait",
    "wait_s",
    callback=as_seconds,
    default="10m",
    help="How long to wait while jobs only wait in the queue; they stay there afterwards.",
)
@click.option(
    "--results",
    type=DIRECTORY,
    help="Folder that compute nodes see, too. Default: calibration/ beside the site file.",
)
@click.option("--account", "-A", help="Account to charge.")
@click.option("--qos", help="Quality of service.")
@click.option("--links/--no-links", default=True,
              help="Measure what connects two free nodes of a kind.")  # fmt: skip
@json_option
def calibrate(
    *,
    site_file: Path | None,
    dry_run: bool,
    kinds: tuple[str, ...],
    quick: bool,
    full: bool,
    wait_s: float,
    results: Path | None,
    links: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Measure each kind of node by jobs, and make the predictor know them.

    Benchmarks and the reference kernels run alone on some nodes of each kind. From their times
    come a platform file for each kind and a bundle, which are put beside the site file and named
    in it. Where two nodes of a kind are free, latency, bandwidth and all-reduce between them are
    measured, too, by MPI where there is one. Interrupted, it goes on where it stopped when it is
    called again; jobs that were submitted are not submitted twice.
    """
    if quick and full:
        raise UsageError("--quick and --full contradict each other", hint="give one of them")
    site = find_site(site_file)
    if site is None:
        raise UsageError(
            f"there is no {SITE_FILE}", hint="make one: berth site init; or give --site"
        )
    scheduler = open_scheduler(site)
    facts = scheduler.read()
    every = kinds_of(site, facts)
    try:
        chosen = named_kinds(every, kinds)
    except KeyError as error:
        raise UsageError(
            f"--kind {error.args[0]!r} is no platform and no place of {site.source}",
            hint="there are: " + ", ".join(map(_with_candidates, every)),
        ) from None
    settings = CalibrationSettings(
        depth="quick" if quick else "full" if full else "normal",
        links=links and scheduler.pair_launcher is not None,
        **options,
    )
    folder = Folder(results or Path(site.source).absolute().parent / FOLDER)
    todo = plan(chosen, facts, folder, settings, drivers_seen(site))
    costs = _cost(chosen, todo, folder, settings)
    report: dict[str, object] = {"plan": costs, "unfinished": [], "result": None}

    def say(lines: Iterable[str]) -> None:
        for line in () if json_ else lines:
            click.echo(line)

    say(costs)
    if not dry_run:
        state = _measure(todo, facts, folder, scheduler, settings=settings, wait_s=wait_s)
        report["unfinished"] = unfinished = _unfinished(chosen, state, facts)
        say(unfinished)
        shown, report["result"] = _learn(site, every, folder)
        say(["", part_text(shown)])
    if json_:
        click.echo(json.dumps(report, indent=2))


def _with_candidates(kind: CalibratedKind) -> str:
    places = ", ".join(candidate.name for candidate in kind.candidates)
    return f"{kind.name} (places: {places})" if places else kind.name


def _cost(
    kinds: tuple[CalibratedKind, ...],
    todo: list[Todo],
    folder: Folder,
    settings: CalibrationSettings,
) -> list[str]:
    each_s = EXPECTED_S[settings.depth]
    jobs = {(s.kind, s.node): s.job for s in folder.read().steps if s.job is not None}
    wanted = [
        t
        for t in todo
        if t.node is not None and t.second is None and (t.kind.name, t.what) not in jobs
    ]
    pairs = [t for t in todo if t.second is not None]
    unmeasured = [t.kind for t in todo if t.node is None and not folder.results(t.kind.name)]
    waiting = {kind.name for kind in unmeasured if kind.nodes}
    count, limit_s = len(wanted), settings.time_limit_s
    lines = [
        f"To measure: {counted(count, 'node')} of "
        f"{counted(len({t.kind.name for t in wanted}), 'kind')}, each alone for about "
        f"{each_s / 60:.0f} min: {count * each_s / 60:.0f} node-minutes (at most "
        f"{count * limit_s / 60:.0f}, by the jobs' time limit)."
        if wanted
        else "Nothing is left to measure on single nodes."
        if pairs
        else "Nothing more is left to submit."
        if jobs.keys() & {(t.kind.name, t.what) for t in todo if t.node is not None}
        else f"{counted(len(waiting), 'kind')} cannot be measured now: "
        f"{', '.join(sorted(waiting))}."
        if waiting
        else "Nothing is left to measure."
    ]
    if wanted and limit_s < each_s:
        lines.append(
            f"CHECK --time-limit: jobs of {format_seconds(limit_s)} end before the measurement, "
            f"which takes about {format_seconds(each_s)}."
        )
    if pairs:
        minutes = LINK_S / 60
        lines.append(
            f"And what connects two nodes of {counted(len(pairs), 'kind')}, "
            f"both alone for about {minutes:.0f} min: {2 * len(pairs) * minutes:.0f} node-minutes."
        )
    for kind in kinds:
        own = [t for t in todo if t.kind is kind]
        names = [t.node.name for t in own if t.node is not None and t.second is None]
        there = [r.node for r in folder.results(kind.name) if r.node not in names]
        sent = {name: jobs[kind.name, name] for name in names if (kind.name, name) in jobs}
        names = [name for name in names if name not in sent]
        words = [f"to measure: {', '.join(names)}"] if names else []
        words += [f"submitted: {name} (job {job})" for name, job in sent.items()]
        words += [f"measured: {', '.join(there)}"] if there else []
        words += [f"{t.nodes[0].name} with {t.nodes[1].name}" for t in own if t.second is not None]
        words += [t.why_not for t in own if t.why_not]
        words += [t.stale for t in own if t.stale]
        single = [t for t in own if t.second is None]
        busy = [t.node.name for t in single if t.node and t.node.idle_cores < t.node.cores]
        busy = [name for name in busy if name in names]
        if names and len(busy) == len(names):
            words.append("no node of it is free now: its jobs wait in the queue")
        lines.append(f"  {kind.name} ({counted(len(kind.nodes), 'node')}): {'; '.join(words)}")
    return lines


def _measure(
    todo: list[Todo],
    facts: ClusterFacts,
    folder: Folder,
    scheduler: Scheduler,
    *,
    settings: CalibrationSettings,
    wait_s: float,
) -> CalibrationState:
    steps = sum(step.node is not None for step in todo)
    try:
        with saying("calibrate") as say:

            def show(now: CalibrationProgress) -> None:
                text = f"{now.running} running, {now.waiting} waiting, {now.failed} failed"
                say(f"{now.done} done, {text}", now.done + now.failed, steps)

            return follow(
                todo, facts, folder, scheduler, settings=settings, wait_s=wait_s, show=show
            )
    except KeyboardInterrupt:
        raise BerthError(
            "interrupted: jobs that were submitted go on",
            hint="the same command follows them; nothing is submitted twice",
        ) from None


def _unfinished(
    kinds: tuple[CalibratedKind, ...], state: CalibrationState, facts: ClusterFacts
) -> list[str]:
    nodes = {node.name: node for node in facts.nodes}
    lines = []
    for step in state.steps:
        if step.kind not in {kind.name for kind in kinds}:
            continue
        if step.problem is not None:
            lines.append(f"{step.node} ({step.kind}) was not measured: {step.problem}.")
        elif step.job is not None:
            node = nodes.get(step.node)
            why = "" if node is None or node.idle_cores == node.cores else ", which is not free"
            lines.append(
                f"Job {step.job} still waits for {step.node} ({step.kind}){why}; "
                "when it has run, call berth site calibrate again."
            )
    return lines


def _learn(
    site: Site, kinds: tuple[CalibratedKind, ...], folder: Folder
) -> tuple[Part, dict[str, Any]]:
    """Install platforms and bundle of everything that was measured so far; return the result for
    people and for JSON."""
    from berth.plugin.calibrate import install, learning  # noqa: PLC0415 - the extra
    from berth.plugin.forecasting import platforms_for  # noqa: PLC0415
    from berth.plugin.report.of_calibration import (  # noqa: PLC0415
        calibrated_platforms,
        calibration_data,
        calibration_part,
    )
    from berth.predictor.families.program.bundle import DEFAULT_BUNDLE  # noqa: PLC0415

    measured = {}
    for kind in kinds:
        results = folder.results(kind.name)
        if results:
            measured[kind.name] = learning.measured(kind.platform, results, folder.links(kind.name))
    if not measured:
        raise BerthError(
            "nothing was measured: the site stays as it was", hint="see the sentences above"
        )
    cpus = [name for name, kind in measured.items() if not kind.platform.is_gpu]
    if not cpus:
        raise BerthError(
            "only GPUs were measured, and what they do is known relative to a CPU",
            hint="measure a kind of CPU node, too: berth site calibrate --kind NAME",
        )
    reference = site.reference_platform if site.reference_platform in cpus else cpus[0]
    source = program_bundle(site.bundles)
    start = DEFAULT_BUNDLE if is_ours(source) else source
    with tempfile.TemporaryDirectory(prefix="berth-calibrated-") as temporary:
        bundle = Path(temporary) / "bundle"
        manifest = learning.learnt(
            start, list(measured.values()), reference, platforms_for(site), bundle,
            command=command_line(),
        )  # fmt: skip
        before = learning.qualities(source, measured, reference, site.platforms)
        new = install.install(
            Path(site.source), [k.platform for k in measured.values()], bundle, manifest.id, source
        )
    after = learning.qualities(program_bundle(new.bundles), measured, reference, new.platforms)
    platforms = calibrated_platforms(new, measured, before, after)
    data = calibration_data(
        new, platforms, folder, bundle_id=manifest.id, forecasts=install.refresh_forecasts(new)
    )
    return calibration_part(data, platforms), data
