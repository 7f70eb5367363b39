"""``--format csv`` for every command that prints tables: these alone, for a spreadsheet."""

from __future__ import annotations

import click

from berth.plugin.cli.options.common import SentenceJson
from berth.plugin.report.csv_tables import tables_as_csv

TEXT, CSV = "text", "csv"
_NAME, _OTHER_NAME = "--format", "--output-format"


def with_format(command: click.Command) -> click.Command:
    """The command with that option, where its result has tables; of a group, its commands too.

    Where ``--format`` means something else already, the option is ``--output-format``.
    """
    known = {
        name
        for parameter in command.params
        if not isinstance(parameter, SentenceJson)
        for name in parameter.opts
    }
    if "--json" in known and _OTHER_NAME not in known and not _has_it(command):
        name = _OTHER_NAME if _NAME in known else _NAME
        command.params.append(
            click.Option(
                [name, "output_format"],
                type=click.Choice([TEXT, CSV]),
                default=TEXT,
                expose_value=False,
                callback=_begin,
                help="csv: its tables alone, for a spreadsheet, with the keys of --json.",
            )
        )
    for inner in getattr(command, "commands", {}).values():
        with_format(inner)
    return command


def _has_it(command: click.Command) -> bool:
    return any(parameter.name == "output_format" for parameter in command.params)


def _begin(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    if value == CSV and not context.resilient_parsing:
        context.with_resource(tables_as_csv())
