"""What ``berth pilot submit`` gives Slurm: the pilot job, and the real job that waits for it."""

from __future__ import annotations

import math
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import parse_bytes, parse_duration_s
from berth.plugin.site.site import Site
from berth.plugin.slurm import commands
from berth.plugin.slurm.launchers import split
from berth.plugin.slurm.pilot_job import TAIL_S, Shape, job_script, pilot_script, with_srun

_PASSED_ON = ("size", "sizes", "threads_sweep", "repeats", "max_slowdown", "runs_on", "needs")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")


class SlurmPilot:
    """Names, scripts and commands of one pilot. ``options`` are those of ``berth pilot submit``."""

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

    def submit(self) -> tuple[str, str | None]:
        """See PilotPlan. The pilot job is cancelled where the job after it is refused."""
        self._write()
        pilot_id = self._submit(self._pilot_command())
        if not self._options["then_place"]:
            return pilot_id, None
        try:
            return pilot_id, self._submit(self._job_command(pilot_id))
        except BerthError:
            commands.run(("scancel", pilot_id))
            raise

    def _write(self) -> None:
        try:
            self._stem.parent.mkdir(parents=True, exist_ok=True)
            self._pilot_file.write_text(self._pilot_text)
            if self._options["then_place"]:
                self._job_file.write_text(self._job_text)
        except OSError as error:
            raise UsageError(f"{self._stem.parent}: cannot be written: {error.strerror}") from None

    def _pilot_command(self) -> tuple[str, ...]:
        give_up_s = _seconds("--give-up-after", self._options["give_up_after"]) or 0.0
        minutes = math.ceil(max(give_up_s, self._pilot_s) / 60) + 1
        return (
            "sbatch", f"--job-name=pilot-{self.name}", "--comment=berth:off",
            f"--partition={self._site.reference_queue}", *self._shape.sbatch_options(),
            *self._on_reference(),
            f"--time={math.ceil(self._pilot_s / 60)}", f"--deadline=now+{minutes}minutes",
            *self._who(), f"--output={self._stem}.log", str(self._pilot_file),
        )  # fmt: skip

    def _job_command(self, pilot_id: str) -> tuple[str, ...]:
        partition = self._options["partition"] or self._site.auto_queue
        limit_s = self._shape.time_limit_s
        more = [f"--partition={partition}"] if partition else []
        more += [f"--time={math.ceil(limit_s / 60)}"] if limit_s else []
        more += [f"--constraint={self._options['constraint']}"] if self._constraint else []
        # Its own filter run would only repeat what the pilot's end does with a fresh profile.
        return (
            "sbatch", f"--job-name={self.name}", "--comment=berth:off",
            f"--dependency=afterany:{pilot_id}", *self._shape.sbatch_options(), *more,
            *self._who(), str(self._job_file),
        )  # fmt: skip

    def shown(self) -> str:
        """Everything that would be done, as shell."""
        parts = [f"# {self._pilot_file}", self._pilot_text, shlex.join(self._pilot_command())]
        if self._options["then_place"]:
            parts += ["", f"# {self._job_file}", self._job_text]
            parts += [shlex.join(self._job_command("PILOT"))]
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

    def _on_reference(self) -> list[str]:
        """What tells nodes of the reference platform from others of its partition."""
        place = self._site.reference_place
        wanted = [self._options["constraint"], None if place is None else place.constraint]
        named = [text for text in dict.fromkeys(wanted) if text]
        if not named:
            return []
        both = named[0] if len(named) == 1 else "&".join(f"({text})" for text in named)
        return [f"--constraint={both}"]

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


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text) * 60  # as sbatch reads it
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
