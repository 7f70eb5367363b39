"""Adds to every command: its example at the top of its help, ``--format csv`` and ``--columns``,
``--help-all``, and the options' defaults in the help."""

from __future__ import annotations

import inspect

import click

from berth.pilot.units import counted
from berth.plugin.cli.options import WORDS, Rare, SentenceJson, with_rare_options

TEXT, CSV = "text", "csv"
_EXAMPLE = "Example:"
_NAME, _OTHER_NAME = "--format", "--output-format"


def prepared(command: click.Command) -> click.Command:
    """Return the command, changed in place, with the additions of this module; subcommands get
    them too."""
    _add_format(command)
    _add_help_all(command)
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


def _add_help_all(command: click.Command) -> None:
    """Add ``--help-all`` to a command whose ``--help`` leaves options out."""
    rare = [option for option in command.params if isinstance(option, Rare)]
    if not rare or any(option.name == "help_all" for option in command.params):
        return
    command.params.append(
        click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help=f"Show this and {counted(len(rare), 'more option')}.",
        )
    )


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        with with_rare_options(context):
            click.echo(context.get_help())
        context.exit()


def _add_format(command: click.Command) -> None:
    """Add ``--format csv`` and ``--columns`` to a command that prints tables.

    Where the command has another ``--format`` option, this one is called ``--output-format``.
    """
    known = {
        name
        for parameter in command.params
        if not isinstance(parameter, SentenceJson)
        for name in parameter.opts
    }
    if "--json" not in known or any(option.name == "output_format" for option in command.params):
        return
    command.params.append(
        Rare(
            ["--columns"],
            type=WORDS,
            expose_value=False,
            callback=_begin_columns,
            metavar="KEY,KEY",
            help="Only these columns, named as in CSV.",
        )
    )
    command.params.append(
        click.Option(
            [_OTHER_NAME if _NAME in known else _NAME, "output_format"],
            type=click.Choice([TEXT, CSV]),
            default=TEXT,
            expose_value=False,
            callback=_begin_csv,
            help="csv: only the tables [text].",
            show_default=False,
        )
    )


def _begin_csv(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    if value == CSV and not context.resilient_parsing:
        from berth.plugin.report.csv_tables import tables_as_csv  # noqa: PLC0415 - of csv alone

        context.with_resource(tables_as_csv())


def _begin_columns(
    context: click.Context, _parameter: click.Parameter, value: tuple[str, ...] | None
) -> None:
    if value is not None and not context.resilient_parsing:
        from berth.plugin.report.chosen_columns import only_columns  # noqa: PLC0415 - not for --help

        context.with_resource(only_columns(value))
