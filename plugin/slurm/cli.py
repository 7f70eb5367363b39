"""The commands of ``berth site slurm``, with which an administrator sets up the submit filter."""

from __future__ import annotations

from pathlib import Path

import click

from berth.plugin.cli.options import answer, installed_site_option, json_option


@click.group()
def slurm() -> None:
    """Set up the Slurm submit filter.

    Example: cp "$(berth site slurm filter-path)" /etc/slurm/job_submit.lua
    """


@slurm.command("filter-path")
@click.option(
    "--client", is_flag=True, help="Print where the optional filter of sbatch, srun and salloc is."
)
def filter_path(*, client: bool) -> None:
    """Print where the filter (job_submit.lua) is.

    Example: cp "$(berth site slurm filter-path)" /etc/slurm/job_submit.lua
    """
    from berth.plugin.slurm.filter import (  # noqa: PLC0415 - pydantic is slow
        CLIENT_FILTER_PATH,
        FILTER_PATH,
    )

    click.echo(CLIENT_FILTER_PATH if client else FILTER_PATH)


@slurm.group()
def putback() -> None:
    """Give jobs their own request back where Slurm keeps them waiting after an edit.

    Example: berth site slurm putback list
    """


@putback.command("run")
@installed_site_option
@click.option("--every", type=click.FloatRange(min=1), help="Look again and again, every N s.")
@json_option
def putback_run(site_file: Path, every: float | None, *, json_: bool) -> None:
    """Look at pending jobs that Berth moved, and put those back that cannot start there.

    Jobs that ran out of memory after Berth made their request smaller run again with their own.
    Needs the rights of SlurmUser or an operator.

    Example: berth site slurm putback run --every 30
    """
    import json  # noqa: PLC0415
    import time  # noqa: PLC0415

    from berth.pilot.errors import BerthError  # noqa: PLC0415
    from berth.plugin.scheduler import ruled_out  # noqa: PLC0415
    from berth.plugin.site import load_site  # noqa: PLC0415 - pydantic is slow to import
    from berth.plugin.slurm import memory_back, put_back  # noqa: PLC0415

    path = load_site(site_file).daemon.ruled_out
    pause_s = every or 0.0
    printed: list[str] = []
    while True:
        try:
            moved = []
            for stuck in put_back.stuck_jobs(time.time()):
                ruled_out.add(path, put_back.put_back(stuck, time.time()))
                moved.append(
                    {
                        "job": stuck.job, "user": stuck.user, "reason": stuck.reason,
                        "candidate": stuck.candidate,
                    }
                )  # fmt: skip
                if not json_:
                    click.echo("job {job} of {user}: {reason} in {candidate}".format(**moved[-1]))
            sentences = list(memory_back.round_of(path, pause_s, time.time()))
            fresh = [sentence for sentence in sentences if sentence not in printed]
            printed = sentences
            if json_ and (every is None or moved or fresh):
                click.echo(json.dumps({"put_back": moved, "memory": fresh}))
            for sentence in () if json_ else fresh:
                click.echo(sentence)
        except BerthError as error:
            if every is None:
                raise
            click.echo(error.message, err=True)
        if every is None:
            return
        time.sleep(every)


@putback.command("list")
@installed_site_option
@json_option
def putback_list(site_file: Path, json_: bool) -> None:
    """Print the places that jobs were put back from, and for whom they are ruled out.

    Example: berth site slurm putback list
    """
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    from berth.plugin.daemon import memory_guard as guard  # noqa: PLC0415
    from berth.plugin.scheduler import ruled_out  # noqa: PLC0415
    from berth.plugin.site import load_site  # noqa: PLC0415

    path = load_site(site_file).daemon.ruled_out
    ruled = ruled_out.load(path)
    if json_:
        click.echo(json.dumps([asdict(entry) for entry in ruled]))
        return
    for entry in ruled:
        click.echo(
            f"{entry.candidate}: not for user {entry.user} nor workload "
            f"{entry.workload or '(none)'}: Slurm kept job {entry.job} waiting ({entry.reason})"
        )
    if not ruled:
        click.echo("no place is ruled out")
    stopped = guard.load_or_nobody(guard.beside(path)).stopped
    if stopped:
        click.echo(f"{len(stopped)} kinds of jobs keep their memory requests: one ran out of less")


@putback.command("clear")
@installed_site_option
@click.argument("candidate", required=False)
@click.option("--all", "everything", is_flag=True, help="Forget it for every place.")
@json_option
def putback_clear(site_file: Path, candidate: str | None, everything: bool, *, json_: bool) -> None:
    """Let jobs go to CANDIDATE again.

    Example: berth site slurm putback clear gpu
    """
    from berth.pilot.errors import UsageError  # noqa: PLC0415
    from berth.plugin.scheduler import ruled_out  # noqa: PLC0415
    from berth.plugin.site import load_site  # noqa: PLC0415
    from berth.plugin.slurm import memory_back  # noqa: PLC0415

    if (candidate is None) is not everything:
        raise UsageError("name one candidate, or --all")
    path = load_site(site_file).daemon.ruled_out
    count = ruled_out.clear(path, candidate)
    if everything:
        count += memory_back.forget(path)
    answer(f"{count} forgotten", {"forgotten": count}, json_=json_)


@slurm.command("filter-config")
@installed_site_option
def config(site_file: Path) -> None:
    """Print the filter's configuration, made from the site file.

    The filter reads /etc/berth/filter.conf, again every few seconds.

    Example: berth site slurm filter-config --site /etc/berth/berth.toml > /etc/berth/filter.conf
    """
    from berth.plugin.site import load_site  # noqa: PLC0415 - pydantic is slow to import
    from berth.plugin.slurm.filter import filter_config  # noqa: PLC0415

    click.echo(filter_config(load_site(site_file)), nl=False)
