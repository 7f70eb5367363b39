"""``python -m lab NAME``: a click command made of an experiment's line in the registry."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import ToolMissing
from lab.experiments.experiment import Options
from lab.experiments.registry import EXPERIMENTS, Experiment, Needs

_PATH = click.Path(path_type=Path)
MORE: Mapping[str, Callable[[], click.Parameter]] = {
    "profiles": lambda: click.Argument(["profiles"], nargs=-1, type=_PATH),
    "config": lambda: click.Argument(["config"], required=False, type=_PATH),
    "reference": lambda: click.Option(
        ["--reference"], help="With PROFILES: where programs are piloted."
    ),
    "platforms": lambda: click.Option(
        ["--platforms"], type=_PATH, help="A site's own platform files."
    ),
    "seeds": lambda: click.Option(
        ["--seeds"], type=click.IntRange(1, 100), default=3, show_default=True,
        help="How many seeds, from --seed up.",
    ),
    "train_only": lambda: click.Option(
        ["--train", "train_only"], is_flag=True, help="Do not evaluate: train only."
    ),
}  # fmt: skip
_MODULES = {
    Needs.TRAIN: ("xgboost", "sklearn", "pandas", "onnxmltools"),
    Needs.DEEP: ("torch",),
    Needs.LANGUAGE: ("peft", "transformers"),
}


class Lab(click.Group):
    """Lists the registry without importing any experiment."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the registry's order."""
        return list(EXPERIMENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Made from its line."""
        found = EXPERIMENTS.get(cmd_name)
        return None if found is None else command(cmd_name, found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line each, with how long it takes; `*`: ``--train`` writes a bundle."""
        with formatter.section("Experiments (*: with --train FOLDER)"):
            formatter.write_dl(
                [
                    (name + " *" * bool(one.trains), f"{one.what} ({one.duration})")
                    for name, one in EXPERIMENTS.items()
                ]
            )


def command(name: str, experiment: Experiment) -> click.Command:
    """Return the command of an experiment; its module is imported when it runs."""
    if experiment.own_options:
        return _handed_on(name, experiment)
    params = [MORE[each]() for each in experiment.takes]
    if experiment.trains and "train_only" not in experiment.takes:
        params += [
            click.Option(
                ["--train", "out"], type=_PATH, metavar="FOLDER",
                help=f"Do not evaluate: train {experiment.trains} and write it to FOLDER.",
            ),
            click.Option(
                ["--figures"], type=_PATH, metavar="FILE",
                help="With --train: the JSON of --report, whose figures go into the model card.",
            ),
        ]  # fmt: skip
    params += [
        click.Option(["--seed"], type=int, default=0, show_default=True),
        click.Option(
            ["--report"], type=_PATH, metavar="DIR",
            help="Write the tables and JSON here; finished folds are cached in it.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
    ]  # fmt: skip

    def run(**given: Any) -> None:
        options = Options(**given)
        require(experiment.needs, name)
        if options.train_only or options.out is not None:
            click.echo(experiment.function("train")(options))
            if options.out is not None:
                click.echo(f"written to {options.out}")
            return
        report = experiment.function("evaluate")(options)
        if options.report is not None:
            report.write(options.report)
        click.echo(json.dumps(report.as_dict(), indent=1) if options.as_json else report.text())

    text = f"{experiment.what[0].upper()}{experiment.what[1:]}."
    return click.Command(
        name,
        callback=run,
        params=params,
        help=f"{text}\n\nTakes about {experiment.duration} on two cores.",
        epilog=f"Example: python -m lab {name} --report report/{name}",
    )


def _handed_on(name: str, experiment: Experiment) -> click.Command:
    def run(*, arguments: tuple[str, ...]) -> None:
        if status := experiment.function("main")(list(arguments)):
            sys.exit(status)

    return click.Command(
        name,
        callback=run,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )


def require(needs: Needs, needed_for: str) -> None:
    """Check libraries. Raises ToolMissing for the first library that is not installed, naming the
    extra."""
    for extra in list(Needs)[: list(Needs).index(needs) + 1]:
        for module in _MODULES[extra]:
            if importlib.util.find_spec(module) is None:
                raise ToolMissing(
                    module, needed_for=needed_for, hint=f"pip install 'berth[{extra}]'"
                )
