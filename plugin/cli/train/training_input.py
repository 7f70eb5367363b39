"""The input of ``berth train``: required packages, command line, a site's own measurements."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.errors import ToolMissing
from berth.pilot.platform import Platform
from berth.pilot.profile import Target

if TYPE_CHECKING:
    from berth.predictor.families.relative.rows import Rows


def require_training(needed_for: str) -> None:
    """Raises ToolMissing where the training libraries are not installed."""
    for module in ("xgboost", "sklearn", "pandas", "onnxmltools"):
        if importlib.util.find_spec(module) is None:
            raise ToolMissing(module, needed_for=needed_for, hint="pip install 'berth[train]'")


def command_line() -> str:
    """Return what was typed, for the manifest."""
    program = Path(sys.argv[0])
    name = "python -m lab" if program.name == "__main__.py" else program.name
    return " ".join([name, *sys.argv[1:]])


@dataclass(frozen=True, slots=True)
class SiteInput:
    """Rows, what they are called, what kind of hardware each platform is, and constants."""

    rows: Rows
    title: str
    kinds: dict[str, str]
    constants: dict[str, float]
    """Counters with one value in all programs, which the rows lack."""


def site_input(
    paths: Sequence[Path], reference: str | None, folder: Path | None
) -> SiteInput | None:
    """Read what the profiles in ``paths`` say; None where there are no paths.

    Says on standard error what was left out and what looks like a mistake. Raises UsageError or
    DocumentError.
    """
    if not paths:
        return None
    require_training("learning from profiles")
    from berth.predictor.hardware import platforms as known  # noqa: PLC0415 - needs the extra
    from berth.predictor.learning.relative.measurements import read_measurements  # noqa: PLC0415

    platforms = known.load(folder)
    measurements = read_measurements(paths, reference)
    if measurements.constant:
        click.echo(
            f"left out, the same in all profiles: {', '.join(measurements.constant)}", err=True
        )
    if measurements.unpaired:
        shown = ", ".join(measurements.unpaired[:5]) + (
            ", ..." if len(measurements.unpaired) > 5 else ""
        )
        click.echo(
            f"left out, no profile on {measurements.rows.reference}: {shown} "
            f"({len(measurements.unpaired)} workloads)",
            err=True,
        )
    for sentence in measurements.doubtful:
        click.echo(f"look again: {sentence}", err=True)
    kinds = {name: _kind(name, platforms) for name in measurements.rows.platforms}
    return SiteInput(measurements.rows, ", ".join(map(str, paths)), kinds, measurements.values)


def _kind(name: str, platforms: Mapping[str, Platform]) -> str:
    """Return ``cpu``, ``nvidia`` or ``amd``; for a platform that is not known, its own name."""
    platform = platforms.get(name)
    if platform is None:
        return name
    if Target.CUDA in platform.targets:
        return "nvidia"
    return "amd" if Target.HIP in platform.targets else "cpu"
