"""Runs Slurm's own commands with a time limit, in the C locale, and reports failures as one
sentence.

Also reads slurmctld's configuration, as ``scontrol show config`` prints it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler.running import Hints, run_command

DEFAULT_TIMEOUT_S = 20.0
_CLEARED = ("SINFO_", "SQUEUE_", "SACCT_")
"""Prefixes of environment variables that would change the format of the output."""
_DOWN = "is slurmctld up? `scontrol ping` tells"
_HINTS = Hints(
    "talking to Slurm", "run this where Slurm's commands are installed (a login node)", _DOWN
)
_NEVER_UP = ("fetch_config", "Could not establish a configuration source", "DNS SRV")


def run(
    command: Sequence[str],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    utc: bool = False,
    submits: bool = False,
    any_status: bool = False,
) -> str:
    """Run one Slurm command and return its standard output.

    ``utc``: the command reads and writes times in UTC; ``submits``: the command runs in the
    caller's own environment, because the job inherits it; ``any_status``: what a failed command
    printed is returned, too. Raises ToolMissing where the command is not installed, SchedulerError
    where it fails or exceeds ``timeout_s``.
    """
    name = command[0]
    environment = dict(os.environ)
    if not submits:
        environment = {k: v for k, v in environment.items() if not k.startswith(_CLEARED)}
        environment.update(LC_ALL="C", SLURM_TIME_FORMAT="standard")
    if utc:
        environment["TZ"] = "UTC0"
    done = run_command(command, name, _HINTS, timeout_s=timeout_s, environment=environment)
    if done.returncode != 0 and not any_status:
        raise _failed(name, done.returncode, done.stderr.decode("utf-8", "replace"))
    # Names of jobs may be in any encoding: what is not UTF-8 becomes a replacement character.
    return done.stdout.decode("utf-8", "replace")


def _failed(name: str, status: int, stderr: str) -> SchedulerError:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any(mark in stderr for mark in _NEVER_UP):
        return SchedulerError(
            f"{name} found no Slurm configuration on this machine",
            hint="set SLURM_CONF, or run this on a login node of the cluster",
        )
    reason = lines[-1].removeprefix(f"{name}: ").removeprefix("error: ") if lines else "no message"
    munge = next((line for line in lines if "unge" in line), None)
    if munge is not None:
        text = f"{name} is refused by munge: {munge.partition('error: ')[2] or munge}"
        return SchedulerError(text[:400], hint="is munged running here? munge -n | unmunge")
    down = "Unable to contact slurm controller" in stderr or "Connection refused" in stderr
    text = f"{name} failed with status {status}: {reason[:300]}"
    return SchedulerError(text, hint=_DOWN if down else None)


_AGAIN = "Resource temporarily unavailable"
_ATTEMPTS = 20
_PAUSE_S = 0.25


def update_job(job: str, words: Sequence[str]) -> None:
    """Run ``scontrol update`` of a job; repeat while slurmctld answers that it is busy (seen with
    26.05). Raises SchedulerError and ToolMissing."""
    for attempt in range(_ATTEMPTS):
        try:
            run(("scontrol", "update", f"JobId={job}", *words))
        except SchedulerError as error:
            if _AGAIN not in error.message or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def read_configuration() -> dict[str, str]:
    """Return slurmctld's configuration by key. Raises SchedulerError or ToolMissing."""
    return parse_configuration(run(("scontrol", "show", "config")))


def parse_configuration(text: str) -> dict[str, str]:
    """Return the ``KEY = VALUE`` lines of ``scontrol show config`` by key; other lines are
    ignored.
    """
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def listed(configuration: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the members of a comma-separated setting; empty where it is unset, ``(null)`` or
    ``none``.
    """
    value = configuration.get(key, "")
    return () if value in ("", "(null)", "none") else tuple(filter(None, value.split(",")))
