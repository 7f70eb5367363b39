"""``python -m lab``: train what is shipped, evaluate it beside its baselines."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from berth.pilot.errors import BerthError
from lab.experiments.command import Lab


@click.group(
    cls=Lab,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.pass_context
def lab(context: click.Context) -> None:
    """Data sets, baselines, published systems and the training of the shipped bundles.

    Each experiment evaluates by default; `python -m lab NAME --help` lists its options.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit status 0 done, 1 failed, 2 wrong usage; never a traceback for bad input."""
    try:
        status = lab.main(args=arguments, prog_name="python -m lab", standalone_mode=False)
        if isinstance(status, int) and status:
            sys.exit(status)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("lab: interrupted", err=True)
        sys.exit(130)
    except BerthError as error:
        click.echo(f"lab: {error.message}" + (f"\n  {error.hint}" if error.hint else ""), err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
