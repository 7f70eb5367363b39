"""Builds and submits the Slurm jobs of ``berth pilot submit``: pilot jobs and the real job after
them.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError, SchedulerError, UsageError
from berth.pilot.units import parse_bytes, parse_duration_s, whole_number
from berth.plugin.scheduler.jobs import berth_command
from berth.plugin.site.site import Site
from berth.plugin.slurm import commands
from berth.plugin.slurm.pilot_job import (
    TAIL_S,
    PilotLaunch,
    PilotShape,
    job_script,
    pilot_script,
    split,
    with_srun,
)
from berth.plugin.slurm.records import Record, duration_s, records

GIVE_UP_S = 43_200.0
"""Seconds after which a pilot job that is not done is dropped: half a day, so that the real job,
which waits for it, runs on the same day."""
_FIXED = frozenset(("-n", "-np", "--np", "--ntasks", "-N", "--nodes", "-H", "--host", "-hosts"))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
_MINUTES_AND_SECONDS = re.compile(r"([0-9]{1,9}):([0-9]{2})")


@dataclass(slots=True)
class _PilotJob:
    """One pilot job: its resource request (``shape``), the stem of its file names, and its
    script.
    """

    shape: PilotShape
    stem: Path
    text: str = ""

    @property
    def profile(self) -> Path:
        return self.stem.with_name(self.stem.name + ".profile.json")

    @property
    def file(self) -> Path:
        return self.stem.with_name(self.stem.name + ".pilot.sh")


class SlurmPilot:
    """The scripts and ``sbatch`` commands of one ``berth pilot submit``; ``options``: that
    command's options by name.
    """

    def __init__(
        self,
        site: Site,
        command: tuple[str, ...],
        options: Mapping[str, Any],
        submit: Callable[[Sequence[str]], str],
    ) -> None:
        if site.reference_queue is None or site.reference_platform is None:
            raise UsageError(
                f"{site.source}: the site names no reference partition and platform",
                hint="set site.reference_partition and site.reference_platform",
            )
        self._site, self._options, self._submit = site, options, submit
        limit_s = _seconds("--time-limit", options["time_limit"])
        if limit_s == 0:
            raise UsageError(
                f"--time-limit {options['time_limit']!r} is no time at all",
                hint="leave it out for no limit",
            )
        shape = PilotShape(
            tasks=options["tasks"],
            cpus_per_task=options["cpus_per_task"],
            memory_bytes_per_node=None if options["mem"] is None else parse_bytes(options["mem"]),
            time_limit_s=limit_s,
        )
        launch = split(command)
        counts = options["nodes"]
        if len(counts) > 1:
            _check_counts(launch, options)
            shapes = [replace(shape, nodes=n, tasks=n * shape.tasks) for n in counts]
        else:
            shapes = [replace(shape, nodes=counts[0] if counts else None)]
        self._shape = shapes[0]
        self.name = _name(options["name"] or Path(launch.program[0]).name)
        self._pilot_s = _seconds("--pilot-time", options["pilot_time"]) or 0.0
        if self._pilot_s < 2 * TAIL_S:
            raise UsageError(f"--pilot-time must be at least {2 * TAIL_S / 60:.0f} minutes")
        folder: Path = options["results"].absolute()
        stem = folder / f"{self.name}-{secrets.token_hex(3)}"
        self._parts = [
            _PilotJob(
                part_shape,
                stem if len(shapes) == 1 else stem.with_name(f"{stem.name}-n{part_shape.nodes}"),
            )
            for part_shape in shapes
        ]
        self._stem, self.profile = self._parts[0].stem, self._parts[0].profile
        for index, part in enumerate(self._parts):
            launch = with_srun(launch, part.shape)
            part.text = pilot_script(
                launch,
                berth=berth_command(),
                profile=part.profile,
                run_options=self._run_options(),
                deliver_options=self._deliver_options(index),
            )
        self._job_text = job_script(with_srun(launch, self._shape))

    def submit(self) -> tuple[tuple[str, ...], str | None]:
        """Submit the pilot jobs and the real job; cancel the submitted pilots if a later job is
        refused.

        With several numbers of nodes, each pilot job waits for the one before, so that no two
        measure at the same time. Raises UsageError, before anything is submitted, where a
        partition's MaxTime is too short. Returns as PilotPlan says.
        """
        self._check_times()
        self._write()
        pilots: list[str] = []
        try:
            for part in self._parts:
                pilots.append(self._submit_pilot(part, pilots[-1:]))
            job = None
            if self._options["then_place"]:
                job = self._submit(self._job_command(pilots[-1]))
        except BerthError:
            for pilot in reversed(pilots):
                commands.run(("scancel", pilot))
            raise
        return tuple(pilots), job

    def _check_times(self) -> None:
        """Raise UsageError where a partition's MaxTime is shorter than the requested time.

        Slurm itself may accept such a job, which then waits for ever. Where a QOS is named nothing
        is checked, since a QOS may lift a partition's limit.
        """
        if self._options["qos"]:
            return
        text = commands.run(("scontrol", "-a", "-o", "show", "partition"))
        partitions = tuple(records(text, "PartitionName"))
        options, limit_s = self._options, self._shape.time_limit_s
        check_time(
            f"--pilot-time {options['pilot_time']}", self._pilot_s,
            self._site.reference_queue, partitions,
            hint="give a shorter --pilot-time: pilots run in the site's reference partition",
        )  # fmt: skip
        if options["then_place"] and limit_s is not None:
            check_time(
                f"--time-limit {options['time_limit']}", limit_s,
                options["partition"] or self._site.auto_queue, partitions,
                hint="give a shorter --time-limit, or another --partition",
            )  # fmt: skip

    def _submit_pilot(self, part: _PilotJob, after: Sequence[str]) -> str:
        """Submit one pilot job and return its id. Raises SchedulerError naming the reference
        partition, which the site chose and not the user.
        """
        try:
            return self._submit(self._pilot_command(part, after))
        except SchedulerError as refused:
            raise SchedulerError(
                f"the reference partition {self._site.reference_queue!r} takes no pilot job of "
                f"yours: {refused.message}",
                hint="measure where you may run (berth pilot run, then berth workload add), or ask "
                "for site.reference_partition to be one that all users may use",
            ) from None

    def _write(self) -> None:
        try:
            self._stem.parent.mkdir(parents=True, exist_ok=True)
            for part in self._parts:
                part.file.write_text(part.text)
            if self._options["then_place"]:
                self._job_file.write_text(self._job_text)
        except OSError as error:
            raise UsageError(f"{self._stem.parent}: cannot be written: {error.strerror}") from None

    def _pilot_command(self, part: _PilotJob, after: Sequence[str]) -> tuple[str, ...]:
        least_s = (self._parts.index(part) + 1) * self._pilot_s  # the pilots before it run first
        minutes = math.ceil(max(GIVE_UP_S, least_s) / 60) + 1
        return (
            "sbatch", f"--job-name=pilot-{self.name}", "--comment=berth:off",
            f"--partition={self._site.reference_queue}", *part.shape.sbatch_options(),
            *self._on_reference(), *(f"--dependency=afterany:{job}" for job in after),
            f"--time={math.ceil(self._pilot_s / 60)}", f"--deadline=now+{minutes}minutes",
            *self._who(), f"--output={part.stem}.log", str(part.file),
        )  # fmt: skip

    def _job_command(self, pilot_id: str) -> tuple[str, ...]:
        partition = self._options["partition"] or self._site.auto_queue
        limit_s = self._shape.time_limit_s
        more = [f"--partition={partition}"] if partition else []
        more += [f"--time={math.ceil(limit_s / 60)}"] if limit_s else []
        more += [f"--constraint={self._options['constraint']}"] if self._constraint else []
        # berth:off, because the pilot job places this job at its end, by the new profile.
        return (
            "sbatch", f"--job-name={self.name}", "--comment=berth:off",
            f"--dependency=afterany:{pilot_id}", *self._shape.sbatch_options(), *more,
            *self._who(), str(self._job_file),
        )  # fmt: skip

    def shown(self) -> str:
        """Return all scripts and commands of the plan as shell text, for ``--dry-run``."""
        parts: list[str] = []
        for number, part in enumerate(self._parts):
            after = ["PILOT"] if number else []
            parts += ["", f"# {part.file}", part.text]
            parts += [shlex.join(self._pilot_command(part, after))]
        if self._options["then_place"]:
            parts += ["", f"# {self._job_file}", self._job_text]
            parts += [shlex.join(self._job_command("PILOT"))]
        return "\n".join(parts[1:])

    @property
    def _job_file(self) -> Path:
        return self._stem.with_name(self._stem.name + ".job.sh")

    @property
    def _constraint(self) -> bool:
        return bool(self._options["constraint"])

    def _on_reference(self) -> list[str]:
        """Return the ``--constraint`` option that restricts the pilot job to nodes of the reference
        platform; empty where none is needed.
        """
        candidate = self._site.reference_candidate
        wanted = [self._options["constraint"], None if candidate is None else candidate.constraint]
        named = [text for text in dict.fromkeys(wanted) if text]
        if not named:
            return []
        both = named[0] if len(named) == 1 else "&".join(f"({text})" for text in named)
        return [f"--constraint={both}"]

    def _who(self) -> list[str]:
        options = self._options
        return [f"--{key}={options[key]}" for key in ("account", "qos") if options[key]]

    def _run_options(self) -> list[str]:
        words = [
            f"--name={self.name}",
            f"--platform={self._site.reference_platform}",
            f"--time-limit={self._pilot_s - TAIL_S:g}",
        ]
        if self._options["size"] is not None:
            words.append(f"--size={self._options['size']}")
        if self._options["count"]:
            words.append("--count")
        return words

    def _deliver_options(self, index: int) -> list[str]:
        options, shape = self._options, self._shape
        words = [f"--site={options['site_file'].absolute()}"]
        words += [f"--with={part.profile}" for part in self._parts[:index]]
        if options["spool"]:
            words.append(f"--spool={options['spool'].absolute()}")
        if not options["then_place"]:
            return words
        words += [
            "--then-place",
            f"--tasks={shape.tasks}",
            f"--cpus-per-task={shape.cpus_per_task}",
        ]
        words += [f"--nodes={shape.nodes}"] if shape.nodes is not None else []
        if shape.time_limit_s is not None:
            words.append(f"--time-limit={shape.time_limit_s:.0f}s")
        keys = ("mem", "constraint", "account", "qos", "size")
        return words + [
            f"--{k.replace('_', '-')}={options[k]}" for k in keys if options[k] is not None
        ]


def _check_counts(launch: PilotLaunch, options: Mapping[str, Any]) -> None:
    """Raise UsageError for launcher options that fix the number of ranks or nodes, which must vary
    here.
    """
    stray = next((w for w in launch.launcher if w.partition("=")[0] in _FIXED), None)
    if stray is None:
        stray = next((w for w in launch.launcher if re.fullmatch(r"-[nN]\d+", w)), None)
    if stray is not None:
        raise UsageError(
            f"{stray} of {launch.launcher[0]} is the same on every number of nodes",
            hint="leave it out: --tasks says how many ranks each node has",
        )
    if options["then_place"]:
        raise UsageError(
            "--then-place needs one number of nodes",
            hint="submit the job when the pilots are done: it is placed by their profile",
        )


def _seconds(option: str, text: str | None) -> float | None:
    """Return a time option in seconds, read as sbatch does (``5``: minutes, ``5:30``: minutes and
    seconds); None: not given. Raises UsageError.
    """
    if text is None:
        return None
    minutes, clock = whole_number(text), _MINUTES_AND_SECONDS.fullmatch(text)
    try:
        if clock is not None:
            return 60.0 * int(clock[1]) + int(clock[2])
        return parse_duration_s(text) if minutes is None else minutes * 60.0
    except ValueError as error:
        raise UsageError(f"{option} {text!r} {error}") from None


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise UsageError(
            f"{text!r} cannot be the name of a profile",
            hint="give one with --name: letters, digits and _ . + - only",
        )
    return text


def check_time(
    option: str, limit_s: float, queues: str | None, partitions: Sequence[Record], *, hint: str
) -> None:
    """Raise UsageError, naming MaxTime, where none of the requested partitions allows ``limit_s``
    seconds.

    ``option``: the option as the user wrote it; ``queues``: partitions separated by commas as for
    sbatch, None: the default partition; ``partitions``: all records of ``scontrol show partition``.
    Slurm rounds limits up to whole minutes.
    """
    names = queues.split(",") if queues else _default(partitions)
    candidates = [partition for partition in partitions if partition["PartitionName"] in names]
    limits_s = [duration_s(partition.get("MaxTime")) for partition in candidates]
    longest_s = max(
        (math.inf if partition is None else partition for partition in limits_s), default=math.inf
    )
    if math.ceil(limit_s / 60) * 60 <= longest_s:
        return
    limits = ", ".join(
        f"{partition['PartitionName']} (MaxTime={partition['MaxTime']})" for partition in candidates
    )
    raise UsageError(f"{option} is more time than a job may have in partition {limits}", hint=hint)


def _default(partitions: Sequence[Record]) -> list[str]:
    return [
        partition["PartitionName"] for partition in partitions if partition.get("Default") == "YES"
    ]
