"""The command line: one file a command, imported only when that command runs.

``berth --help`` must not pay for numpy, SQLAlchemy or anything else, so this module knows the
commands by name only: each entry is ``"module:attribute"`` and a one-line summary. Commands of
one scheduler only are entry points of ``berth.commands``: click groups that import nothing heavy.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.plugins import Registry
from berth.pilot.version import VERSION


class LazyGroup(click.Group):
    """A click group whose commands are imported when they are called, not when listed."""

    def __init__(
        self,
        *args: Any,
        lazy: dict[str, tuple[str, str]],
        more: Registry[click.Command] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy
        self._more = more

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *(self._more.own() if self._more else ())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return self._registered(cmd_name)
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a click command")
        return _with_format(command)

    def _registered(self, name: str) -> click.Command | None:
        try:
            return None if self._more is None else _with_format(self._more.load(name))
        except UsageError:
            if self._more is not None and any(p.name == name for p in self._more.problems()):
                raise
            return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._lazy:
            return
        rows = [(name, text) for name, (_, text) in self._lazy.items()]
        if self._more is not None:
            own = self._more.own()
            rows += [(name, self._more.load(name).get_short_help_str(70)) for name in own]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _with_format(command: click.Command) -> click.Command:
    from berth.plugin.cli.output.formats import with_format  # noqa: PLC0415 - of commands alone

    return with_format(command)


COMMANDS: dict[str, tuple[str, str]] = {
    "pilot": (
        "berth.plugin.cli.pilot.group:pilot",
        "Measure a program, a machine, or a suite of kernels.",
    ),
    "predict": (
        "berth.plugin.cli.predict.command:predict",
        "Rank platforms for a workload.",
    ),
    "place": (
        "berth.plugin.cli.place.command:place",
        "Decide where a workload should run.",
    ),
    "init": (
        "berth.plugin.cli.site.init:init",
        "Write a first site file by asking the scheduler.",
    ),
    "calibrate": (
        "berth.plugin.cli.site.calibrate:calibrate",
        "Measure the site's kinds of nodes by jobs, and learn from it.",
    ),
    "replace": (
        "berth.plugin.cli.place.replace:replace",
        "Place pending jobs anew, where the scheduler can move them.",
    ),
    "serve": (
        "berth.plugin.cli.site.serve:serve",
        "Answer the scheduler's submit filter (the daemon).",
    ),
    "ui": (
        "berth.plugin.cli.site.ui:ui",
        "Show predictions, placements, jobs and the site in a browser.",
    ),
    "report": (
        "berth.plugin.cli.site.report:report",
        "Write a job, a workload, the site or the GPUs as one HTML file.",
    ),
    "platform": (
        "berth.plugin.cli.site.platform:platform",
        "List, show and add kinds of hardware.",
    ),
    "train": (
        "berth.plugin.cli.train.command:train",
        "Train a predictor from kernel profiles.",
    ),
    "tune": (
        "berth.plugin.cli.replay.tune:tune",
        "Try settings of the policy on past jobs, judge the best on later ones.",
    ),
    "bundle": (
        "berth.plugin.cli.train.bundle:bundle",
        "Show, verify and compare trained predictors.",
    ),
    "model": (
        "berth.plugin.cli.workload.model:model",
        "Show a deep-learning model's graph and its work.",
    ),
    "mig": (
        "berth.plugin.cli.mig.group:mig",
        "Cut GPUs into slices that fit the jobs that are coming.",
    ),
    "store": (
        "berth.plugin.cli.site.store:store",
        "Make, upgrade and prune the store.",
    ),
    "workload": (
        "berth.plugin.cli.workload.command:workload",
        "Add workloads of every kind to the store, list, show and remove them.",
    ),
    "decisions": (
        "berth.plugin.cli.jobs.decisions:decisions",
        "Show what was decided for jobs, and explain why.",
    ),
    "outcomes": (
        "berth.plugin.cli.jobs.outcomes:outcomes",
        "Show how well predicted times held for jobs that have run.",
    ),
    "history": (
        "berth.plugin.cli.jobs.history:history",
        "Import past jobs, so that jobs nobody piloted are predicted.",
    ),
    "waits": (
        "berth.plugin.cli.jobs.waits:waits",
        "Show how long a job that comes now would wait, by place.",
    ),
    "replay": (
        "berth.plugin.cli.replay.command:replay_command",
        "Show what would have happened to past jobs on another cluster or scheduler.",
    ),
    "advise": (
        "berth.plugin.cli.jobs.advise:advise_command",
        "Show what jobs needed of the time and memory that they asked for.",
    ),
    "why": (
        "berth.plugin.cli.jobs.why:why",
        "Explain where a job is, what it waits for, what was predicted.",
    ),
    "learn": (
        "berth.plugin.cli.jobs.learn:learn",
        "Let finished jobs change forecasts, or undo it.",
    ),
    "doctor": (
        "berth.plugin.cli.site.doctor:doctor",
        "Check this installation and say what to do.",
    ),
    "support-bundle": (
        "berth.plugin.cli.site.doctor:support_bundle",
        "Collect what a maintainer needs, without names.",
    ),
}


REGISTERED: Registry[click.Command] = Registry(
    "berth.commands",
    kind="command",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=("get_short_help_str",),
)


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    more=REGISTERED,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="berth")
def berth() -> None:
    """Puts each job where it runs best.

    Start with: berth pilot run -- ./app args
    """


def _shown_reports() -> AbstractContextManager[None]:
    """Progress of long work; nothing is imported for it where nobody would see it."""
    if not sys.stderr.isatty():
        return nullcontext()
    from berth.plugin.cli.output.step_bar import shown_reports  # noqa: PLC0415

    return shown_reports()


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: exit status 0 done, 1 failed, 2 wrong usage; never a traceback for bad input."""
    try:
        # Outside of standalone mode click hands back the status of an Exit instead of raising it.
        with _shown_reports():
            status = berth.main(args=arguments, prog_name="berth", standalone_mode=False)
        if isinstance(status, int) and status:
            sys.exit(status)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("berth: interrupted", err=True)
        sys.exit(130)
    except BerthError as error:
        click.echo(f"berth: {error.message}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        # A full disk, a folder that is somebody else's: the machine's doing, not a fault of Berth.
        if error.errno is None or error.strerror is None:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        click.echo(f"berth: {where}{error.strerror}", err=True)
        sys.exit(1)
