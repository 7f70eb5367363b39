"""``berth pilot usage``: records what a job used when it ends, or prints the script that does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.pilot.usage import at_job_end
from berth.plugin.cli.options import DIRECTORY

SCRIPT = """\
#!/bin/sh
# What each job used, read when it ends: Slurm's Epilog (with PrologFlags=RunInJob) or TaskEpilog.
# Never fails: a failing Epilog drains the node.
BERTH_USAGE_SPOOL=${{BERTH_USAGE_SPOOL:-{spool}}}
export BERTH_USAGE_SPOOL
run='import sys; sys.path.append(sys.argv[1]); import at_job_end; at_job_end.main()'
'{python}' -I -S -c "$run" '{folder}' </dev/null >/dev/null 2>&1
exit 0
"""


@click.command()
@click.option("--script", is_flag=True, help="Print the script for slurm.conf, and do nothing.")
@click.option("--show", is_flag=True, help="Print the line instead of leaving it in the spool.")
@click.option(
    "--spool",
    type=DIRECTORY,
    default=Path(at_job_end.SPOOL),
    show_default=True,
    help="Folder that `berth workload collect` reads.",
)
def usage(*, script: bool, show: bool, spool: Path) -> None:
    """Record what a job used on this node, from its control group and NVML's accounting.

    It runs when the job ends, and takes some milliseconds. It exits with status 0 whatever happens,
    and writes nothing where no job is named. `--script` prints a script for Slurm's Epilog or
    TaskEpilog that starts faster than this command.

    \b
    Example:
      berth pilot usage --script > /etc/slurm/berth-usage-epilog
      SLURM_JOB_ID=4242 berth pilot usage --show    # on the node, while the job runs
    """
    if script:
        click.echo(script_text(spool), nl=False)
        return
    environ = {**os.environ, "BERTH_USAGE_SPOOL": str(spool)}
    if show:
        fields = at_job_end.measured(environ)
        if fields is None:
            raise UsageError("no job is named here", hint="set SLURM_JOB_ID")
        if at_job_end.has_gpus(environ):
            at_job_end.add_gpus(fields, environ)
        click.echo(at_job_end.as_json(fields))
        return
    os.environ.update(environ)
    at_job_end.main()


def script_text(spool: Path) -> str:
    """Return the script that runs ``at_job_end`` of this installation. Raises UsageError for a path
    with a quote."""
    folder = Path(at_job_end.__file__).resolve().parent
    if "'" in f"{sys.executable}{folder}{spool}":
        raise UsageError("Berth's folder or --spool has a quote in its name")
    return SCRIPT.format(spool=spool, python=sys.executable, folder=folder)
