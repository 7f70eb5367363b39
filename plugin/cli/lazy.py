"""Groups of commands that are imported only when they run.

``berth --help`` must be fast, so it may not import numpy, SQLAlchemy or other slow modules: a
group knows its commands by name, module and one-line summary (``tree``), and imports a command's
module when it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.plugins import Registry
from berth.plugin.cli.tree import Branch, Leaf, help_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


REGISTERED: Registry[click.Command] = Registry(
    "berth.commands",
    kind="command",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=("get_short_help_str",),
)
"""Registry of commands for one scheduler, and of other packages' commands, under ``berth site``."""


class LazyGroup(click.Group):
    """A click group whose commands are imported when they are called, not when listed."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, Leaf | Branch],
        more: Registry[click.Command] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self._more = more
        self._loaded: MutableMapping[str, click.Command] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *(self._more.own() if self._more else ())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._loaded:
            command = self._load(cmd_name)
            if command is None:
                return None
            from berth.plugin.cli.every_command import prepared  # noqa: PLC0415 - not for --help

            self._loaded[cmd_name] = prepared(command)
        return self._loaded[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. Raises NoSuchCommand, naming other
        groups that have the command."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            root = ctx.find_root().command
            known = root.lazy if isinstance(root, LazyGroup) else {}
            paths = " or ".join(f"berth {path}" for path in _paths_to(error.command_name, known))
            names = None if paths else self.list_commands(ctx)
            text = f"{error.message} There is: {paths}" if paths else error.message
            raise click.NoSuchCommand(error.command_name, text, names, ctx) from None

    def _load(self, name: str) -> click.Command | None:
        node = self.lazy.get(name)
        if node is None:
            return self._registered(name)
        if isinstance(node, Branch):
            return branch(name, node)
        module, _, attribute = node.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{node.target} is not a click command")
        return CommandWithMore(name, command, node.below) if node.below else command

    def _registered(self, name: str) -> click.Command | None:
        try:
            return None if self._more is None else self._more.load(name)
        except UsageError:
            if self._more is not None and any(p.name == name for p in self._more.problems()):
                raise
            return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for_people: list[tuple[str, str]] = []
        for_jobs: list[tuple[str, str]] = []
        for name, node in self.lazy.items():
            is_for_jobs = isinstance(node, Leaf) and node.for_jobs
            (for_jobs if is_for_jobs else for_people).append((name, node.summary))
        if self._more is not None:
            for name in self._more.own():
                for_people.append((name, self._more.load(name).get_short_help_str(70)))
        for title, rows in (("Commands", for_people), ("Called by Berth's own jobs", for_jobs)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Root(LazyGroup):
    """The command ``berth`` itself; its help is written without importing the commands."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the text that ``berth --help`` prints."""
        return help_text()


class CommandWithMore(LazyGroup):
    """A command that can run by itself and also has subcommands, such as ``berth place replace``.

    If the first word names a subcommand, the subcommand runs. A file with such a name must be
    given as ``./replace``.
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def __init__(self, name: str, command: click.Command, below: Mapping[str, Leaf]) -> None:
        super().__init__(
            name,
            lazy=below,
            callback=command.callback,
            params=command.params,
            help=command.help,
            epilog=command.epilog,
            context_settings=command.context_settings,
            invoke_without_command=True,
        )

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the command itself, or of the group of its subcommands if the
        first word names one."""
        completes_first_word = not args and extra.get("resilient_parsing")
        if completes_first_word or (args and args[0] in self.lazy):
            return _Below(self).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage words of the command, without those of a group."""
        return click.Command.collect_usage_pieces(self, ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters; an empty list while click formats a subcommand's
        path."""
        return super().get_params(ctx) if ctx.command is self else []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        return click.Command.invoke(self, ctx)


class _Below(LazyGroup):
    """The subcommands of a command that can also run by itself; shell completion also offers
    that command's own words."""

    def __init__(self, command: CommandWithMore) -> None:
        super().__init__(command.name, lazy=command.lazy)
        self._command = command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        own = click.Context(self._command, parent=ctx.parent, info_name=ctx.info_name)
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self._command, own, incomplete)
        items = super().shell_complete(ctx, incomplete)
        first = next((p for p in self._command.params if isinstance(p, click.Argument)), None)
        return items if first is None else [*items, *first.shell_complete(own, incomplete)]


def _paths_to(name: str, nodes: Mapping[str, Leaf | Branch]) -> Iterator[str]:
    """Yield the paths of commands with that name in the tree, such as ``site doctor``."""
    for word, node in nodes.items():
        if word == name:
            yield word
        below = node.commands if isinstance(node, Branch) else node.below
        yield from (f"{word} {path}" for path in _paths_to(name, below))


def branch(name: str, node: Branch) -> LazyGroup:
    """Return the click group of a branch of the tree."""
    text = f"{node.summary}\n\n\b\nExample:\n  {node.example}"
    more = REGISTERED if node.has_more else None
    return LazyGroup(name, lazy=node.commands, more=more, help=text)
