"""The request of a ``berth predict`` command: one workload, and how to show it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.plugin.report.parts import Report
from berth.plugin.report.terminal import report_text
from berth.plugin.workloads.files import title
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """A ``berth predict`` request: the workload, the forecaster and platforms to use, and the
    command's options."""

    path: Path
    workload: Workload
    forecaster: Forecaster
    platforms: Mapping[str, Platform]
    """All known platforms, by name."""
    reference: str | None
    names: tuple[str, ...]
    """Platforms that the user named; empty: all."""
    bundles: Mapping[str, Path]
    """Bundles that the user named, by the schema of their manifest."""
    as_json: bool
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the model's open dimensions, by dimension name."""
    others: tuple[Path, ...] = ()
    size: float | None = None
    cores: int | None = None
    nodes: tuple[int, ...] = ()
    """Numbers of nodes to predict for; empty: the number in the workload's own run."""
    stored: tuple[Profile, ...] = ()
    why: bool = False
    roofline: bool = False
    carbon_g_per_kwh: float | None = None
    currency: str = ""
    """Currency of the site's prices; empty: no site is named."""

    def check(self, *allowed: str) -> None:
        """Raise UsageError for an option that does not apply to this type of workload."""
        given = {
            "a second file": bool(self.others), "--size": self.size is not None,
            "--cores": self.cores is not None, "--nodes": bool(self.nodes),
            "--roofline": self.roofline,
        }  # fmt: skip
        stray = next((name for name, on in given.items() if on and name not in allowed), None)
        if stray is not None:
            raise UsageError(f"{stray} means nothing for {title(self.workload.kind)}")

    def show(self, report: Callable[[], Report], data: Callable[[], Mapping[str, Any]]) -> None:
        """Print the result: the report as text, or its data as JSON."""
        click.echo(json.dumps(data(), indent=2) if self.as_json else report_text(report()))

    def chosen(self) -> dict[str, Platform]:
        """Return the platforms to predict for, in the order in which the user named them."""
        return {name: self.platforms[name] for name in self.names} or dict(self.platforms)

    def forecast(self, names: Iterable[str]) -> Forecast:
        """Return the forecast for these platforms, the same as ``berth place`` and the store use.

        Raises UsageError.
        """
        return self.forecaster.forecast(
            self.workload,
            {name: self.platforms[name] for name in names},
            self.platforms,
            reference=self.reference,
        )
