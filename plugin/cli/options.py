"""Options with the same meaning in several commands, and the printing of a command's result.

Each option is defined once; the module imports nothing slow.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from enum import EnumType
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from berth.pilot.errors import UsageError
from berth.pilot.plugins import Registry
from berth.pilot.printable import printable
from berth.pilot.units import parse_duration_s, whole_number
from berth.plugin.installed_site import Installation
from berth.plugin.site_file import SITE_FILE

if TYPE_CHECKING:
    from berth.plugin.report.parts import Part, Report, Table

    Shown: TypeAlias = str | Report | Part | Table[Any]
    """The form of a result for people."""

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
POSITIVE = click.IntRange(min=1)


class Listed(click.ParamType[tuple[Any, ...]]):
    """A list of values separated by commas; ``read`` converts one word, and raises ValueError.

    ``like`` is an example of such a list; for an enumeration, its values are listed instead.
    ``is_set``: the values come in ascending order, each once, and an empty entry is refused.
    """

    def __init__(
        self, name: str, read: Callable[[str], Any], like: str = "", *, is_set: bool = False
    ) -> None:
        self.name = name
        self._read, self._is_set = read, is_set
        self._expected = f"not a list of {name} such as {like}"
        if isinstance(read, EnumType):
            self._expected = f"none of {', '.join(map(str, read))}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Return the values in the text; a tuple is returned unchanged. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        try:
            words = [word.strip() for word in value.split(",")]
            values = [self._read(word) for word in words if word or self._is_set]
        except ValueError:
            self.fail(f"{value!r} is {self._expected}", param, ctx)
        return tuple(sorted(set(values)) if self._is_set else values)


def _count(word: str) -> int:
    """Return the whole number, at least 1, that a word such as ``1e6`` means. Raises ValueError."""
    number = float(word)
    if number < 1 or not number.is_integer():
        raise ValueError(word)
    return int(number)


def _nodes(word: str) -> int:
    """Return a number of nodes, from 1 to 100 million. Raises ValueError."""
    number = whole_number(word, 10**8)
    if not number:
        raise ValueError(word)
    return number


WORDS = Listed("words", str, "this,that")
NODES = Listed("whole numbers", _nodes, "1,2,4", is_set=True)
"""Numbers of nodes, in ascending order and without duplicates."""
NUMBERS = Listed("numbers", float, "100,200")
COUNTS = Listed("whole numbers", _count, "1,2,4")


class Named(click.ParamType[str]):
    """An option's value that is a name in the registry; an unknown name raises UsageError with the
    nearest known name.

    Help lists only Berth's own names: other packages are imported only when the value is used.
    """

    def __init__(self, registry: Registry[Any]) -> None:
        self.name = registry.kind
        self._registry = registry

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, after importing the object that it names. Raises UsageError."""
        self._registry.load(value)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return Berth's own names in the form in which click prints a choice."""
        return f"[{'|'.join(self._registry.own())}|...]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return every name that begins with ``incomplete``, including names that other packages
        add."""
        return [CompletionItem(n) for n in self._registry.names() if n.startswith(incomplete)]


def json_option(command: F) -> F:
    """Add ``--json``, passed as ``json_``, to a command that prints a result; see ``answer``."""
    return click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")(command)


def answer(shown: Shown | Callable[[], Shown], data: object, *, json_: bool) -> None:
    """Print a command's result: ``shown`` as text, or ``data`` as JSON.

    Either may be a function that returns it, where making it takes time or is not always possible.
    """
    if json_:
        click.echo(json.dumps(data() if callable(data) else data, indent=2))
        return
    content = shown() if callable(shown) else shown
    if isinstance(content, str):
        click.echo(printable(content, but="\n\t"))
        return
    from berth.plugin.report.terminal import as_text  # noqa: PLC0415 - not for --help

    click.echo(as_text(content))


def site_option(command: F) -> F:
    """Add ``--site``, passed to the command as ``site_file``: a path, or None for the installed
    site file."""
    return click.option(
        "--site", "site_file", type=PATH, envvar="BERTH_SITE",
        help=f"Site file [{SITE_FILE}, where there is one].",
    )(command)  # fmt: skip


def installed_site_option(command: F) -> F:
    """Add ``--site``, passed as ``site_file``, to commands that need a site file."""
    return click.option(
        "--site", "site_file", type=PATH, envvar="BERTH_SITE", default=SITE_FILE,
        help="Site file (berth.toml).",
    )(command)  # fmt: skip


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--site`` and ``--store``, passed to the command as ``installation``."""

    @functools.wraps(command)
    def with_installation(
        *, site_file: Path | None, store_url: str | None, **arguments: Any
    ) -> Any:
        return command(installation=Installation(site_file, store_url), **arguments)

    option = click.option(
        "--store", "store_url", envvar="BERTH_STORE",
        help="Store, as a path or URL [the site file's].",
    )  # fmt: skip
    return site_option(option(with_installation))


UNNAMED_PLATFORM = "local"
"""Name of the platform of a profile that was measured on a machine without a name."""


def platform_option(command: F) -> F:
    """Add ``--platform``, passed as ``platform``, to commands that measure this machine."""
    return click.option(
        "--platform", default=UNNAMED_PLATFORM, envvar="BERTH_PLATFORM", show_envvar=True,
        help="Name of the platform that this machine is.",
    )(command)  # fmt: skip


def seconds_of(option: str, text: str) -> float:
    """Return the seconds that a text such as ``90``, ``10m`` or ``2h`` means. Raises UsageError
    naming the option."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} {error}") from None


def as_seconds(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """Return an option's duration in seconds; for use as a click callback. Raises UsageError."""
    return None if value is None else seconds_of(parameter.opts[0], value)


def bundles_option(command: F) -> F:
    """Add ``--bundle``, passed as ``bundles``: paths of bundles that replace shipped ones."""
    return click.option(
        "--bundle",
        "bundles",
        multiple=True,
        type=PATH,
        help="Bundle in place of the shipped one of its kind; several can be given.",
    )(command)
