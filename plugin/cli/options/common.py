"""Options that mean the same in several commands and are light to import."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.units import parse_duration_s, whole_number
from berth.plugin.installed_site import SITE_FILE


class Counts(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, separated by commas: ``1,2,4``; ascending, each once."""

    name = "counts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """A tuple stays as it is."""
        if isinstance(value, tuple):
            return value
        counts = [whole_number(word, 10**8) or 0 for word in str(value).split(",")]
        if not all(counts):
            self.fail(f"{value!r} is not a list of numbers such as 1,2,4", param, ctx)
        return tuple(sorted(set(counts)))


COUNTS = Counts()


class SentenceJson(click.Option):
    """``--json`` of a command that prints no table: such a command has no ``--format csv``."""


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--json`` to a command that prints a sentence, given as ``json_``; see ``answer``."""
    return click.option(
        "--json", "json_", is_flag=True, cls=SentenceJson, help="Print the result as JSON."
    )(command)


def answer(text: str, found: object, *, json_: bool) -> None:
    """Print a command's result: ``text``, or ``found`` as JSON."""
    click.echo(json.dumps(found, indent=2) if json_ else text)


def installed_site_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--site`` for commands that cannot do without a site file, given as ``site_file``."""
    return click.option(
        "--site",
        "site_file",
        type=click.Path(path_type=Path),
        envvar="BERTH_SITE",
        default=SITE_FILE,
        show_default=True,
        help="Site file (berth.toml).",
    )(command)


def seconds_of(option: str, text: str) -> float:
    """A duration in seconds, as ``90``, ``10m`` or ``2h``. Raises UsageError naming the option."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} {error}") from None
