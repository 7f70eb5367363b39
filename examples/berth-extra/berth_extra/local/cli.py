"""A command of this scheduler's own."""

from __future__ import annotations

import click


@click.group()
def local() -> None:
    """Show jobs that run as processes of this machine.

    Example: berth site local jobs
    """


@local.command("jobs")
def list_jobs() -> None:
    """List them, the newest last.

    Example: berth site local jobs
    """
    from berth_extra.local.jobs import every  # noqa: PLC0415 - berth --help imports this module

    for job in every():
        outcome = job.outcome()
        click.echo(f"{job.id}  {outcome.state}  {outcome.elapsed_s:.1f} s  {' '.join(job.words)}")
