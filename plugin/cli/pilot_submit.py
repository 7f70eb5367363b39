"""``berth pilot submit``: the pilot as a job on the reference partition, and the job after it."""

from __future__ import annotations

import json
import math
import re
import secrets
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import parse_bytes
from berth.plugin.site import Site, load_site
from berth.plugin.site.quantities import parse_duration_s
from berth.plugin.slurm import commands
from berth.plugin.slurm.launchers import split
from berth.plugin.slurm.pilot_job import (
    TAIL_S,
    Shape,
    job_script,
    pilot_script,
    with_srun,
)

_COUNT = click.IntRange(min=1)
_PASSED_ON = ("size", "sizes", "threads_sweep", "repeats", "max_slowdown", "runs_on", "needs")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog="Example: berth pilot submit --then-place --tasks 8 -- ./app input.dat",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--then-place", is_flag=True, help="Also submit the real job, placed by the pilot.")
@click.option(
    "--site",
    "site_file",
    required=True,
    type=click.Path(path_type=Path),
    envvar="BERTH_SITE",
    help="Site file (berth.toml); the compute nodes must see it.",
)
@click.option("--name", help="Name of the profile. Default: the program's file name.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder for profile, scripts and logs; the compute nodes must see it. Default: here.",
)
@click.option(
    "--spool",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="BERTH_SPOOL",
    help="Shared folder for profiles, where the nodes do not reach the store.",
)
@click.option("--tasks", "-n", type=_COUNT, default=1, show_default=True, help="Tasks (ranks).")
@click.option(
    "--cpus-per-task", "-c", type=_COUNT, default=1, show_default=True, help="Cores each."
)
@click.option("--nodes", "-N", type=_COUNT, help="Keep to so many nodes.")
@click.option("--mem", help="Memory for each node, for example 16G.")
@click.option("--time-limit", "-t", help="Of the real job, for example 90m or 12h.")
@click.option("--partition", "-p", help="Of the real job where the pilot decides nothing.")
@click.option("--constraint", "-C", help="Node features to keep.")
@click.option("--account", "-A", help="Account to charge.")
@click.option("--qos", help="Quality of service.")
@click.option("--pilot-time", default="30m", show_default=True, help="Time limit of the pilot job.")
@click.option(
    "--give-up-after",
    default="12h",
    show_default=True,
    help="Slurm drops a pilot job that is not done by then; the real job then runs as asked.",
)
@click.option("--size", help="See berth pilot run.")
@click.option("--sizes", help="See berth pilot run.")
@click.option("--threads-sweep", help="See berth pilot run.")
@click.option("--repeats", help="See berth pilot run.")
@click.option("--max-slowdown", help="See berth pilot run.")
@click.option("--runs-on", help="See berth pilot run.")
@click.option("--needs", help="See berth pilot run.")
@click.option("--dry-run", is_flag=True, help="Print the scripts and commands; submit nothing.")
@click.option("--json", "json_", is_flag=True, help="Print the job ids as JSON.")
def submit(command: tuple[str, ...], **options: Any) -> None:
    """Measure COMMAND in a short job on the site's reference partition.

    The Profile goes to the site's store, or to the spool folder, and stays in --results. With
    --then-place the real job is submitted too; it waits for the pilot's end, is moved to the best
    place by then, and runs where it was asked if the pilot fails for any reason.

    COMMAND may begin with srun, mpirun or mpiexec: rank 0 is then measured, in one run.
    """
    site = load_site(options["site_file"])
    plan = _Plan(site, command, options)
    if options["dry_run"]:
        click.echo(plan.shown())
        return
    plan.write()
    pilot_id = _submit(plan.pilot_command())
    found = {"profile": str(plan.profile), "pilot_job": pilot_id, "job": None}
    if options["then_place"]:
        try:
            found["job"] = _submit(plan.job_command(pilot_id))
        except BerthError:
            commands.run(("scancel", pilot_id))
            raise
    if json_ := options["json_"]:
        click.echo(json.dumps(found, indent=2))
    if not json_:
        click.echo(f"Pilot job {pilot_id} measures {plan.name}; its profile: {plan.profile}")
        if found["job"]:
            click.echo(f"Job {found['job']} waits for it, to be placed.")


class _Plan:
    """Names, scripts and commands of one pilot."""

    def __init__(self, site: Site, command: tuple[str, ...], options: dict[str, Any]) -> None:
        if site.reference_queue is None or site.reference_platform is None:
            raise UsageError(
                f"{site.source}: the site names no reference partition and platform",
                hint="set site.reference_partition and site.reference_platform",
            )
        self._site, self._options = site, options
        self._shape = Shape(
            tasks=options["tasks"],
            cpus_per_task=options["cpus_per_task"],
            nodes=options["nodes"],
            memory_bytes_per_node=None if options["mem"] is None else parse_bytes(options["mem"]),
            time_limit_s=_seconds("--time-limit", options["time_limit"]),
        )
        launch = with_srun(split(command), self._shape)
        self.name = _name(options["name"] or Path(launch.program[0]).name)
        self._pilot_s = _seconds("--pilot-time", options["pilot_time"]) or 0.0
        if self._pilot_s < 2 * TAIL_S:
            raise UsageError(f"--pilot-time must be at least {2 * TAIL_S / 60:.0f} minutes")
        folder: Path = options["results"].absolute()
        self._stem = folder / f"{self.name}-{secrets.token_hex(3)}"
        self.profile = self._stem.with_name(self._stem.name + ".profile.json")
        self._pilot_text = pilot_script(
            launch,
            berth=_berth(),
            profile=self.profile,
            run_options=self._run_options(),
            count_options=self._count_options(),
            deliver_options=self._deliver_options(),
        )
        self._job_text = job_script(launch)

    def write(self) -> None:
        """Put the scripts into the results folder."""
        try:
            self._stem.parent.mkdir(parents=True, exist_ok=True)
            self._pilot_file.write_text(self._pilot_text)
            if self._options["then_place"]:
                self._job_file.write_text(self._job_text)
        except OSError as error:
            raise UsageError(f"{self._stem.parent}: cannot be written: {error.strerror}") from None

    def pilot_command(self) -> tuple[str, ...]:
        give_up_s = _seconds("--give-up-after", self._options["give_up_after"]) or 0.0
        minutes = math.ceil(max(give_up_s, self._pilot_s) / 60) + 1
        return (
            "sbatch", "--parsable", f"--job-name=pilot-{self.name}", "--comment=berth:off",
            f"--partition={self._site.reference_queue}", *self._shape.sbatch_options(),
            f"--time={math.ceil(self._pilot_s / 60)}", f"--deadline=now+{minutes}minutes",
            *self._who(), f"--output={self._stem}.log", str(self._pilot_file),
        )  # fmt: skip

    def job_command(self, pilot_id: str) -> tuple[str, ...]:
        partition = self._options["partition"] or self._site.auto_queue
        limit_s = self._shape.time_limit_s
        more = [f"--partition={partition}"] if partition else []
        more += [f"--time={math.ceil(limit_s / 60)}"] if limit_s else []
        more += [f"--constraint={self._options['constraint']}"] if self._constraint else []
        # Its own filter run would only repeat what the pilot's end does with a fresh profile.
        return (
            "sbatch", "--parsable", f"--job-name={self.name}", "--comment=berth:off",
            f"--dependency=afterany:{pilot_id}", *self._shape.sbatch_options(), *more,
            *self._who(), str(self._job_file),
        )  # fmt: skip

    def shown(self) -> str:
        """Everything that would be done, as shell."""
        parts = [f"# {self._pilot_file}", self._pilot_text, shlex.join(self.pilot_command())]
        if self._options["then_place"]:
            parts += ["", f"# {self._job_file}", self._job_text]
            parts += [shlex.join(self.job_command("PILOT"))]
        return "\n".join(parts)

    @property
    def _pilot_file(self) -> Path:
        return self._stem.with_name(self._stem.name + ".pilot.sh")

    @property
    def _job_file(self) -> Path:
        return self._stem.with_name(self._stem.name + ".job.sh")

    @property
    def _constraint(self) -> bool:
        return bool(self._options["constraint"])

    def _who(self) -> list[str]:
        given = self._options
        return [f"--{key}={given[key]}" for key in ("account", "qos") if given[key]]

    def _run_options(self) -> list[str]:
        words = [
            f"--name={self.name}",
            f"--platform={self._site.reference_platform}",
            f"--time-limit={self._pilot_s - TAIL_S:g}",
        ]
        for key in _PASSED_ON:
            if self._options[key] is not None:
                words.append(f"--{key.replace('_', '-')}={self._options[key]}")
        return words

    def _count_options(self) -> list[str]:
        words = [f"--time-limit={(self._pilot_s - TAIL_S) / 2:g}"]
        if self._options["max_slowdown"] is not None:
            words.append(f"--max-slowdown={self._options['max_slowdown']}")
        return words

    def _deliver_options(self) -> list[str]:
        given, shape = self._options, self._shape
        words = [f"--site={given['site_file'].absolute()}"]
        if given["spool"]:
            words.append(f"--spool={given['spool'].absolute()}")
        if not given["then_place"]:
            return words
        words += [
            "--then-place",
            f"--tasks={shape.tasks}",
            f"--cpus-per-task={shape.cpus_per_task}",
        ]
        keys = ("nodes", "mem", "time_limit", "constraint", "account", "qos", "size")
        return words + [f"--{k.replace('_', '-')}={given[k]}" for k in keys if given[k] is not None]


def _submit(command: tuple[str, ...]) -> str:
    answer = commands.run(command, submits=True).strip().split(";")[0]
    if not answer.isdigit():
        raise BerthError(f"sbatch answered {answer[:80]!r} instead of a job id")
    return answer


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r} {error}") from None


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise UsageError(
            f"{text!r} cannot be the name of a profile",
            hint="give one with --name: letters, digits and _ . + - only",
        )
    return text


def _berth() -> str:
    """This program's own path: the compute nodes must have it at the same place."""
    beside = Path(sys.executable).with_name("berth")
    return str(beside) if beside.exists() else shutil.which("berth") or "berth"
