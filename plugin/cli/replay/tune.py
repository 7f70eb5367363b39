"""``berth replay tune``: finds the policy that would have served the site's past jobs best."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import write_text
from berth.pilot.errors import BerthError, UsageError
from berth.plugin.cli.options import DIRECTORY, PATH, seconds_of, site_option
from berth.plugin.report.progress_bars import saying
from berth.plugin.report.terminal import report_text
from berth.plugin.scheduler import Scheduler
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site.site import Site
from berth.plugin.site_file import SITE_FILE, find_site
from berth.plugin.tune.folder import (
    DIFFERENCE,
    JOURNAL,
    REPORT,
    TUNED,
    TuneOrder,
    content_of,
)
from berth.policies.tuning.figures import METRICS
from berth.policies.tuning.parameters import PARAMETERS, chosen
from berth.policies.tuning.storage import Progress

FOLDER = "tune"
FIRST_SHARE = 0.125
"""Part of the training time after which hopeless trials are stopped: an eighth of it orders trials
as the whole does."""


def _words(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _seconds(_context: click.Context, parameter: click.Parameter, value: str) -> float:
    return seconds_of(parameter.opts[0], value)


@click.command(
    epilog="Example: berth replay tune jobs.sacct --site berth.toml --metrics finish,cost"
)
@click.argument("jobs", type=PATH, required=False)
@site_option
@click.option("--times", type=PATH, metavar="CSV",
              help="CSV of true run times elsewhere: job,platform,runtime_s.")  # fmt: skip
@click.option("--metrics", callback=_words, default="finish",
              help=f"With commas, the first one foremost: {', '.join(METRICS)}.")  # fmt: skip
@click.option("--parameters", callback=_words, default="",
              help="Settings to try [all but time_margin and max_interval_ratio]: "
              f"{', '.join(PARAMETERS)}.")  # fmt: skip
@click.option("--trials", type=click.IntRange(1, 1_000_000), default=100, help="Settings to try.")
@click.option("--train", "train_share", type=click.FloatRange(0.1, 0.9), default=0.5,
              help="Part of the time that trains; the rest tests.")  # fmt: skip
@click.option("--folder", type=DIRECTORY, default=FOLDER,
              help="Where everything is kept; workers must see it.")  # fmt: skip
@click.option("--storage", help="URL of a database instead of the folder's journal.")
@click.option(
    "--workers", type=click.IntRange(1, 10_000), default=1, help="Processes or jobs that try them."
)
@click.option("--on", "on", metavar="SCHEDULER:QUEUE",
              help="Submit the workers there. Default: start processes here.")  # fmt: skip
@click.option("--time-limit", "time_limit_s", callback=_seconds, default="4h",
              help="Time limit of each submitted worker.")  # fmt: skip
@click.option("--account", "-A", help="Account to charge submitted workers to.")
@click.option("--qos", help="Quality of service of submitted workers.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE",
              help="Setting of the replay; see berth replay.")  # fmt: skip
@click.option("--join", type=DIRECTORY,
              help="Work for the tune in this folder, and nothing else.")  # fmt: skip
@click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")
def tune(
    *,
    jobs: Path | None,
    site_file: Path | None,
    metrics: tuple[str, ...],
    parameters: tuple[str, ...],
    join: Path | None,
    folder: Path,
    json_: bool,
    **options: Any,
) -> None:
    """Try settings of the policy on past jobs, and judge the best on later ones.

    JOBS is a file of past jobs as berth replay takes it. The site file stays as it is: the folder
    gets the recommended one, its difference and a report. Interrupted, the same command goes on.
    """
    from berth.plugin.report.html import html  # noqa: PLC0415
    from berth.plugin.report.of_tune import (  # noqa: PLC0415
        tune_data,
        tune_report,
        verdict_report,
    )
    from berth.plugin.tune import run  # noqa: PLC0415 - Optuna's own imports take a second
    from berth.policies.tuning.study import require_optuna  # noqa: PLC0415

    require_optuna()
    if join is not None:
        run.join(join)
        return
    if jobs is None:
        raise UsageError(
            "there are no past jobs to tune on", hint="berth replay tune JOBS --site FILE"
        )
    site = find_site(site_file)
    if site is None:
        raise UsageError(
            f"there is no {SITE_FILE}", hint="make one: berth site init; or give --site"
        )
    order = _order(
        jobs, site, metrics=metrics, parameters=parameters, folder=folder, options=options
    )
    scheduler, queue = _where(site, options["on"])
    with _progress(order.trials) as show:
        result = run.tune(
            folder, order, site, show=show, workers=options["workers"], scheduler=scheduler,
            queue=queue, time_limit_s=options["time_limit_s"], account=options["account"],
            qos=options["qos"],
        )  # fmt: skip
    made_by = f"berth replay tune, jobs of {order.trace}"
    write_text(folder / REPORT, html(tune_report(result, site.currency), made_by=made_by))
    if json_:
        click.echo(json.dumps(tune_data(result, folder), indent=2))
        return
    click.echo(report_text(verdict_report(result, site.currency)))
    click.echo(f"\nReport: {folder / REPORT}")
    if (folder / TUNED).is_file():
        click.echo(f"Recommended site file: {folder / TUNED}; what changes: {folder / DIFFERENCE}")


def _order(
    jobs: Path,
    site: Site,
    *,
    metrics: tuple[str, ...],
    parameters: tuple[str, ...],
    folder: Path,
    options: dict[str, Any],
) -> TuneOrder:
    from berth.plugin.tune.replaying import open_replayer  # noqa: PLC0415 - numpy and the engine

    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        raise UsageError(
            f"--metrics: there is no metric {unknown[0]!r}" if unknown else "--metrics is empty",
            hint=f"there are: {', '.join(METRICS)}",
        )
    pairs = [text.partition("=") for text in options["options"]]
    for text, (key, mark, _) in zip(options["options"], pairs, strict=True):
        if not key or not mark:
            raise UsageError(f"--option {text!r} is not KEY=VALUE")
    given = {key: value for key, _, value in pairs}
    files = [Path(site.source), jobs]
    if options["times"] is not None:
        given["times"] = str(options["times"].absolute())
        files.append(options["times"])
    replayer = open_replayer(site, jobs, given)
    chosen(parameters)
    span_s = replayer.span_s
    if span_s <= 0:
        raise UsageError(f"{jobs}: all jobs were submitted at once, there is nothing to test on")
    train_s = options["train_share"] * span_s
    return TuneOrder(
        site=str(Path(site.source).absolute()),
        trace=str(jobs.absolute()),
        content=content_of(*files),
        parameters=parameters,
        metrics=metrics,
        trials=options["trials"],
        train_s=train_s,
        first_s=FIRST_SHARE * train_s,
        storage=options["storage"] or str(folder.absolute() / JOURNAL),
        options=given,
    )


def _where(site: Site, text: str | None) -> tuple[Scheduler | None, str]:
    if text is None:
        return None, ""
    name, mark, queue = text.partition(":")
    if not mark or not queue:
        raise UsageError(f"--on {text!r} is not SCHEDULER:QUEUE")
    return open_scheduler(site, name), queue


@contextmanager
def _progress(trials: int) -> Iterator[Callable[[Progress], None]]:
    """Show how many trials are finished and the time left, while the block runs. Raises
    BerthError when interrupted."""
    with saying("tune") as say:

        def show(now: Progress) -> None:
            text = f"{now.finished} of {trials} trials, {now.stopped} stopped early"
            say(text, now.finished, trials)

        try:
            yield show
        except KeyboardInterrupt:
            raise BerthError(
                "interrupted: what is done is kept", hint="the same command goes on with it"
            ) from None
