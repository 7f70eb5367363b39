"""What ``berth predict`` was asked: one workload, and how to look at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.plugin.workloads.files import title
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Interval
from berth.predictor.core.workload import Workload
from berth.predictor.hardware import platforms as catalogue


@dataclass(frozen=True, slots=True)
class Asked:
    """The workload, what predicts it, and the options of the command."""

    path: Path
    workload: Workload
    forecaster: Forecaster
    platforms: Mapping[str, Platform]
    """All that are known."""
    reference: str | None
    names: tuple[str, ...]
    """Platforms that were asked for; empty: all."""
    bundles: Mapping[str, Path]
    """Named ones by the schema of their manifest."""
    as_json: bool
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of a model's open dimensions."""
    others: tuple[Path, ...] = ()
    size: float | None = None
    cores: int | None = None
    nodes: tuple[int, ...] = ()
    """Empty: as many as the workload's own run had."""
    known: tuple[str, ...] = ()
    stored: tuple[Profile, ...] = ()
    probe: bool = False
    why: bool = False
    picture: Path | None = None
    roofline: bool = False
    carbon_g_per_kwh: float | None = None

    def check(self, *allowed: str) -> None:
        """Raises UsageError for an option that means nothing for this kind of workload."""
        given = {
            "a second file": bool(self.others), "--size": self.size is not None,
            "--cores": self.cores is not None, "--nodes": bool(self.nodes),
            "--known": bool(self.known),
            "--probe": self.probe, "--picture": self.picture is not None,
            "--roofline": self.roofline, "--carbon-intensity": self.carbon_g_per_kwh is not None,
        }  # fmt: skip
        stray = next((name for name, on in given.items() if on and name not in allowed), None)
        if stray is not None:
            raise UsageError(f"{stray} means nothing for {title(self.workload.kind)}")

    def draw_times(self, rows: Iterable[tuple[str, Interval, bool]]) -> None:
        """``--picture`` of a ranking: names, seconds, and whether one can act on each.

        Raises ToolMissing, UsageError for another ending.
        """
        if self.picture is None:
            return
        from berth.plugin.pictures.charts import Row, draw  # noqa: PLC0415 - of the extra

        shown = [Row(name, (t.low, t.mid, t.high), not trusted) for name, t, trusted in rows]
        draw(self.picture, shown)
        click.echo(f"picture written to {self.picture}", err=True)

    def chosen(self) -> dict[str, Platform]:
        """The platforms to predict for, in the order asked. Raises UsageError."""
        found = {name: catalogue.get(name, self.platforms) for name in self.names}
        return {one.name: one for one in found.values()} or dict(self.platforms)

    def forecast(self, names: Iterable[str]) -> Forecast:
        """What ``place`` and the store get, too, of these platforms. Raises UsageError."""
        return self.forecaster.forecast(
            self.workload,
            {name: self.platforms[name] for name in names},
            self.platforms,
            reference=self.reference,
        )
