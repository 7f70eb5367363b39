"""Reports what a bundle holds."""

from __future__ import annotations

import math

from berth.plugin.report.parts import Column, Part, Report, Table
from berth.predictor.core.bundle import BundleManifest
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, NORMAL_90
from berth.predictor.families.graph.transfer.bundle import PlatformEntry, TransferManifest
from berth.predictor.families.program.bundle import Calibration, Labelled, Manifest
from berth.predictor.families.relative.bundle import RelativeManifest
from berth.predictor.families.slices.bundle import MethodEntry, SliceManifest


def _factor(entry: Labelled | Calibration) -> float:
    """Return the upper end of the 90 % interval over its middle, for the most usual programs."""
    if isinstance(entry, Labelled) and entry.own_time is not None:
        return math.exp(NORMAL_90 * entry.own_time.deviation)
    return math.exp(entry.score_quantile * DIFFICULTY_FLOOR)


LABELLED: tuple[Column[Labelled], ...] = (
    Column("Platform", "platform", lambda entry: entry.platform),
    Column("At", "units", lambda entry: entry.cores or entry.gpus,
           words=lambda e: f"{e.cores} core" if e.cores else f"{e.gpus} GPU", kind=float),
    Column("Rows", "rows", lambda entry: entry.rows, kind=float),
    Column("90 % factor", "interval_factor", _factor, "{:.2f}".format, kind=float),
    Column("Prior's", "prior_interval_factor",
           lambda entry: None if entry.prior is None else _factor(entry.prior), "{:.2f}".format,
           kind=float),
    Column("Labels", "label", lambda entry: entry.label),
)  # fmt: skip
"""The columns of the platforms that programs were timed on."""
PLACED: tuple[Column[PlatformEntry], ...] = (
    Column("Platform", "platform", lambda entry: entry.platform),
    Column("From", "samples", lambda entry: entry.samples, "{} runs of the site".format,
           missing="data set", kind=float),
    Column("90 % factor", "interval_factor",
           lambda entry: None if entry.log_width is None else math.exp(entry.log_width),
           "{:.2f}".format, kind=float),
)  # fmt: skip
"""The columns of the platforms that model graphs were timed on."""
METHODS: tuple[Column[MethodEntry], ...] = (
    Column("Method", "name", lambda entry: entry.name),
    Column("Models", "models", lambda entry: entry.models, kind=float),
    Column("Rows", "rows", lambda entry: entry.rows, kind=float),
    Column("q90", "q90", lambda entry: entry.width, "{:.3f}".format, kind=float),
    Column("Data", "data", lambda entry: entry.data),
)
"""The columns of the ways to predict slow-downs on MIG slices."""


def bundle_report(manifest: BundleManifest) -> Report:
    """Return the report of what a bundle holds: data, calibration, figures."""
    headline = f"{manifest.id}, made {manifest.created} by `{manifest.command}`"
    figures = [(name, f"{value:.4g}") for name, value in manifest.figures.items()]
    return Report(
        "", headline,
        [_contents(manifest), *([Part("Figures", facts=figures)] if figures else [])],
    )  # fmt: skip


def _contents(manifest: BundleManifest) -> Part:
    match manifest:
        case Manifest(training=training):
            line = (
                f"trained on {training.rows} profiles of {training.kernels} kernels "
                f"measured on {manifest.reference}"
            )
            return Part("", [line], tables=[Table("Platforms", LABELLED, manifest.labelled)])
        case RelativeManifest(training=training):
            line = (
                f"relative performance, {manifest.family}: trained on {training.rows} rows of "
                f"{len(training.applications)} applications piloted on {manifest.reference}"
            )
            return Part("", [line, f"platforms: {', '.join(manifest.platforms)}"])
        case SliceManifest():
            line = f"slow-downs on MIG slices, measured on {', '.join(manifest.gpus)}"
            return Part("", [line], tables=[Table("Methods", METHODS, manifest.methods)])
        case TransferManifest(training=training):
            line = f"latency of model graphs: trained on {training.rows} measurements"
            return Part("", [line], tables=[Table("Platforms", PLACED, manifest.platforms)])
        case _:
            return Part("", ["--card tells what it was trained on"])
