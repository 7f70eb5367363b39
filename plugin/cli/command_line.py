"""The entry point of ``berth``: runs the click command and turns errors into messages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import click

from berth.pilot.errors import BerthError
from berth.pilot.printable import printable
from berth.pilot.version import VERSION
from berth.plugin.cli.lazy import Root
from berth.plugin.cli.tree import COMMANDS


@click.group(
    cls=Root,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="berth")
@click.option("--csv", is_flag=True, help="Print a command's tables as CSV, and nothing else.")
@click.pass_context
def berth(context: click.Context, *, csv: bool) -> None:
    """Put each job where it runs best."""
    if csv:
        from berth.plugin.report.csv_tables import tables_as_csv  # noqa: PLC0415 - of csv alone

        context.with_resource(tables_as_csv())


def run(arguments: Sequence[str]) -> None:
    """Run the command; exit status 0: done, 1: failed, 2: wrong usage.

    Invalid input never leads to a traceback.
    """
    try:
        # Without standalone mode, click returns the status of an Exit instead of raising it.
        with _shown_reports():
            status = berth.main(args=list(arguments), prog_name="berth", standalone_mode=False)
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
        click.echo(printable(f"berth: {error.message}", but="\n\t"), err=True)
        if error.hint:
            click.echo(printable(f"  {error.hint}", but="\n\t"), err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        # A full disk or another user's folder is a problem of the machine, not a fault of Berth.
        if error.errno is None or error.strerror is None:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        click.echo(printable(f"berth: {where}{error.strerror}"), err=True)
        sys.exit(1)


def _shown_reports() -> AbstractContextManager[None]:
    """Return a context that shows the progress of long work; an empty context where standard
    error is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from berth.plugin.report.progress_bars import shown_reports  # noqa: PLC0415

    return shown_reports()
