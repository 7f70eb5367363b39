"""slurmctld's configuration, as ``scontrol show config`` prints it."""

from __future__ import annotations

from collections.abc import Mapping

from berth.plugin.slurm import commands


def read_configuration() -> dict[str, str]:
    """Values by key. Raises SchedulerError or ToolMissing."""
    return parse_configuration(commands.run(("scontrol", "show", "config")))


def parse_configuration(text: str) -> dict[str, str]:
    """``KEY = VALUE`` lines; others are left out."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def listed(configuration: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The members of a value that is a list; none where it is ``(null)``."""
    value = configuration.get(key, "")
    return () if value in ("", "(null)", "none") else tuple(filter(None, value.split(",")))
