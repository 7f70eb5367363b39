"""Adds to every command's help: its example at the top, and the options' defaults."""

from __future__ import annotations

import inspect

import click

_EXAMPLE = "Example:"


def prepared(command: click.Command) -> click.Command:
    """Return the command, changed in place, with the additions of this module; subcommands get
    them too."""
    _put_example_first(command)
    for option in command.params:
        if isinstance(option, click.Option) and option.show_default is None:
            option.show_default = option.default not in ("", (), [])
    for below in getattr(command, "commands", {}).values():
        prepared(below)
    return command


def _put_example_first(command: click.Command) -> None:
    """Move the example of a command's docstring, or of its epilog, to the top of its help."""
    text, _, example = inspect.cleandoc(command.help or "").partition(_EXAMPLE)
    if not text.replace("\b", "").strip():
        return  # the example is at the top already
    if not example and command.epilog:
        example, command.epilog = command.epilog.partition(_EXAMPLE)[2], None
    if not example:
        return
    text = text.rstrip("\b\n ")
    command.short_help = command.short_help or click.Command("", help=text).get_short_help_str(70)
    lines = inspect.cleandoc(example if example.startswith("\n") else f"\n{example.strip()}")
    indented = "\n".join(f"  {line}".rstrip() for line in lines.strip("\n").splitlines())
    command.help = f"\b\n{_EXAMPLE}\n{indented}\n\n{text}"
