"""Reports bundles: what one holds, how two differ, and a new one's figures beside baselines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.plugin.report.parts import Column, Part, Report, Table
from berth.predictor.core.bundle import BundleManifest
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, NORMAL_90
from berth.predictor.families.graph.transfer.bundle import PlatformEntry, TransferManifest
from berth.predictor.families.program.bundle import Calibration, Labelled, Manifest
from berth.predictor.families.relative.bundle import RelativeManifest
from berth.predictor.families.slices.bundle import MethodEntry, SliceManifest

_LONGEST = 60
"""Characters of a value that are shown of a difference."""
_WIDTHS = ("width", "quantile", "q90", "q95")
_MADE = ("id", "created", "command", "berth_version", "schema")


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
    Column("Prior's", "prior_interval_factor", lambda entry: _factor(entry.prior), "{:.2f}".format,
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
    Column("q90", "q90", lambda entry: entry.width.q90, "{:.3f}".format, kind=float),
    Column("q95", "q95", lambda entry: entry.width.q95, "{:.3f}".format, kind=float),
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


@dataclass(frozen=True, slots=True)
class BundleDifference:
    """A key of two bundles' manifests with different values; None: that manifest lacks the key."""

    group: str
    """``made``, ``files``, ``figures``, ``widths`` or ``data``."""
    key: str
    before: Any
    after: Any


def _short(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


DIFFERENCES: tuple[Column[BundleDifference], ...] = (
    Column("Group", "group", lambda row: row.group, is_wide=True),
    Column("Key", "key", lambda row: row.key),
    Column("First", "before", lambda row: row.before, _short, missing="none", kind=Any),
    Column("Second", "after", lambda row: row.after, _short, missing="none", kind=Any),
)
"""The columns of the values in which two bundles differ."""


def differences_part(differences: Sequence[BundleDifference]) -> Part:
    """Return a table for each group of differences."""
    groups = dict.fromkeys(difference.group for difference in differences)
    return Part("", tables=[
        Table(group.capitalize(), DIFFERENCES, [d for d in differences if d.group == group])
        for group in groups
    ])  # fmt: skip


def differences_of(before: BundleManifest, after: BundleManifest) -> list[BundleDifference]:
    """Return the differences in the order of the manifests' keys, by group."""
    first, second = (
        dict(_flat(manifest.model_dump(mode="json", by_alias=True))) for manifest in (before, after)
    )
    changed = [
        BundleDifference(_group(key), key, first.get(key), second.get(key))
        for key in dict.fromkeys((*first, *second))
        if first.get(key) != second.get(key)
    ]
    order = ("made", "data", "figures", "widths", "files")
    return sorted(changed, key=lambda difference: order.index(difference.group))


def _flat(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for index, inner in enumerate(value):
            name = _name_of(inner, index)
            yield from _flat(inner, f"{path}[{name}]")
    else:
        yield path, value


def _name_of(value: object, index: int) -> str:
    if isinstance(value, Mapping):
        for key in ("name", "platform", "head"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return str(index)


def _group(key: str) -> str:
    first = key.partition(".")[0]
    if first in ("files", "figures"):
        return first
    if first in _MADE:
        return "made"
    last = key.rpartition(".")[2]
    return "widths" if any(word in last for word in _WIDTHS) else "data"
