"""Options that mean the same in several commands: one definition of each, light to import."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from berth.pilot.errors import UsageError
from berth.pilot.plugins import Registry
from berth.pilot.units import parse_duration_s, whole_number
from berth.plugin.installed_site import SITE_FILE

_ALL = "berth.help-all"
F = TypeVar("F", bound=Callable[..., Any])


class Counts(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, separated by commas: ``1,2,4``; ascending, each once."""

    name = "counts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers of the text; a tuple stays as it is. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        counts = [whole_number(word, 10**8) or 0 for word in str(value).split(",")]
        if not all(counts):
            self.fail(f"{value!r} is not a list of numbers such as 1,2,4", param, ctx)
        return tuple(sorted(set(counts)))


COUNTS = Counts()


class Named(click.ParamType[str]):
    """A name of the registry; another one raises UsageError with the nearest.

    Help shows Berth's own names: other packages are looked at only when the value is used.
    """

    def __init__(self, registry: Registry[Any]) -> None:
        self.name = registry.kind
        self._registry = registry

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, after importing what it names. Raises UsageError."""
        self._registry.load(value)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return Berth's own names, as click shows a choice."""
        return f"[{'|'.join(self._registry.own())}|...]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return every name that begins so, of other packages too."""
        return [CompletionItem(n) for n in self._registry.names() if n.startswith(incomplete)]


class Rare(click.Option):
    """An option that few need: ``--help`` leaves it out, ``--help-all`` and the manual have it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return what help says of it; None: nothing."""
        return super().get_help_record(ctx) if ctx.meta.get(_ALL) else None


@contextmanager
def with_rare_options(context: click.Context) -> Iterator[None]:
    """Let the help of that context have the rare options, too, within the block."""
    context.meta[_ALL] = True
    yield
    del context.meta[_ALL]


class SentenceJson(click.Option):
    """``--json`` of a command that prints no table: such a command has no ``--format csv``."""


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` to a command that prints a sentence, given as ``json_``; see ``answer``."""
    return click.option(
        "--json", "json_", is_flag=True, cls=SentenceJson, help="Print the result as JSON."
    )(command)


def table_json_option(command: F) -> F:
    """Add ``--json`` to a command that prints tables, given as ``json_``."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON.")(command)


def answer(text: str, data: object, *, json_: bool) -> None:
    """Print a command's result: ``text``, or ``data`` as JSON."""
    click.echo(json.dumps(data, indent=2) if json_ else text)


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--site`` and ``--store``, given to the command as ``site_file`` and ``store_url``."""
    command = click.option(
        "--store",
        "store_url",
        envvar="BERTH_STORE",
        help="Store, as a path or URL [the site file's].",
    )(command)
    return site_option(command)


def site_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--site``, given to the command as ``site_file``: a path, or None for find_site."""
    return click.option(
        "--site",
        "site_file",
        type=click.Path(path_type=Path),
        envvar="BERTH_SITE",
        help=f"Site file [{SITE_FILE}, where there is one].",
    )(command)


def installed_site_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--site`` for commands that cannot do without a site file, given as ``site_file``."""
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
    """Return the seconds of ``90``, ``10m`` or ``2h``. Raises UsageError naming the option."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} {error}") from None


def bundles_option(command: F) -> F:
    """Add ``--bundle``, given as ``bundles``."""
    return click.option(
        "--bundle",
        "bundles",
        cls=Rare,
        multiple=True,
        type=click.Path(path_type=Path),
        help="Bundle in place of the shipped one of its kind; several can be given.",
    )(command)
