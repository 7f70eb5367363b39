"""``berth train bundle``: shows, verifies and compares bundles."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from berth.plugin.bundle_readers import reader_of
from berth.plugin.cli.options import PATH, answer, json_option, table_json_option
from berth.plugin.cli.train.training_input import require_training
from berth.plugin.report.terminal import columns
from berth.predictor.core.bundle import CARD, BundleManifest
from berth.predictor.core.intervals import DIFFICULTY_FLOOR
from berth.predictor.families.graph.transfer import bundle as transfer
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.relative import bundle as relative
from berth.predictor.families.slices import bundle as slices

_FOLDER = click.argument("folder", required=False, type=PATH, default=bundles.DEFAULT_BUNDLE)
_WIDTHS = ("width", "quantile", "q90", "q95")
_MADE = ("id", "created", "command", "berth_version", "schema")


@click.group()
def bundle() -> None:
    """Show, verify and compare trained predictors (default: the shipped one).

    Example: berth train bundle verify my-bundle
    """


@bundle.command(epilog="Example: berth train bundle show")
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
@click.option("--card", is_flag=True, help="Print the model card.")
def show(folder: Path, as_json: bool, card: bool) -> None:
    """What FOLDER holds: data, calibration, figures."""
    manifest = reader_of(folder).verify(folder)
    if as_json:
        click.echo(json.dumps(manifest.model_dump(mode="json", by_alias=True), indent=2))
        return
    if card:
        click.echo((folder / CARD).read_text(encoding="utf-8"), nl=False)
        return
    click.echo(f"{manifest.id}, made {manifest.created} by `{manifest.command}`")
    match manifest:
        case bundles.Manifest():
            _tell_kernels(manifest)
        case relative.RelativeManifest():
            _tell_relative(manifest)
        case slices.SliceManifest():
            _tell_slices(manifest)
        case transfer.TransferManifest():
            _tell_transfer(manifest)
            return
        case _:
            _tell_figures(manifest)
            click.echo("--card tells what it was trained on")
            return
    _tell_figures(manifest)


@bundle.command(epilog="Example: berth train bundle verify my-bundle")
@_FOLDER
@json_option
def verify(folder: Path, *, json_: bool) -> None:
    """Check every file of FOLDER against the manifest, and that its models run."""
    loaded = reader_of(folder).load(folder)
    answer(f"{loaded.id}: whole", {"bundle": loaded.id, "whole": True}, json_=json_)


@bundle.command(epilog="Example: berth train bundle diff old-bundle new-bundle")
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@table_json_option
def diff(first: Path, second: Path, json_: bool) -> None:
    """What differs between two bundles: data, figures, widths of intervals, files.

    Exit status 0 also where they differ.
    """
    changed = differences(reader_of(first).verify(first), reader_of(second).verify(second))
    if json_:
        click.echo(json.dumps([asdict(difference) for difference in changed], indent=2))
        return
    if not changed:
        click.echo("no difference")
    for group in dict.fromkeys(difference.group for difference in changed):
        click.echo(group)
        for difference in changed:
            if difference.group == group:
                click.echo(f"  {difference.sentence()}")


@bundle.command(epilog="Example: berth train bundle onnx my-bundle -o cost.onnx")
@click.argument("folder", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, help="ONNX file to write.")
@json_option
def onnx(folder: Path, out: Path, *, json_: bool) -> None:
    """Write the cost model in FOLDER (`berth train --task relative-performance`) as ONNX."""
    require_training("writing ONNX")
    from berth.predictor.learning.relative.cost_model_onnx import export_cost_model  # noqa: PLC0415 - the extra

    apart = export_cost_model(folder, out)
    answer(
        f"{out}: at most {apart:.1g} (log) from the bundle's own answers",
        {"file": str(out), "largest_log_difference": apart},
        json_=json_,
    )


def _tell_figures(manifest: BundleManifest) -> None:
    for name, value in manifest.figures.items():
        click.echo(f"  {name}: {value:.4g}")


def _tell_kernels(manifest: bundles.Manifest) -> None:
    training = manifest.training
    click.echo(
        f"trained on {training.rows} profiles of {training.kernels} kernels "
        f"measured on {manifest.reference}"
    )
    rows = [
        (
            entry.platform,
            f"{entry.cores} core" if entry.cores else f"{entry.gpus} GPU",
            str(entry.rows),
            f"{math.exp(entry.score_quantile * DIFFICULTY_FLOOR):.2f}",
            f"{math.exp(entry.prior.score_quantile * DIFFICULTY_FLOOR):.2f}",
            entry.label,
        )
        for entry in manifest.labelled
    ]
    header = ("platform", "at", "rows", "90 % factor", "prior's", "labels")
    click.echo(columns(header, rows))


def _tell_transfer(manifest: transfer.TransferManifest) -> None:
    click.echo(f"latency of model graphs: trained on {manifest.training.rows} measurements")
    rows = [
        (
            platform.platform,
            "data set" if platform.samples is None else f"{platform.samples} runs of the site",
            "-" if platform.log_width is None else f"{math.exp(platform.log_width):.2f}",
        )
        for platform in manifest.platforms
    ]
    click.echo(columns(("platform", "from", "90 % factor"), rows))


def _tell_relative(manifest: relative.RelativeManifest) -> None:
    training = manifest.training
    click.echo(
        f"relative performance, {manifest.family}: trained on {training.rows} rows of "
        f"{len(training.applications)} applications piloted on {manifest.reference}"
    )
    click.echo(f"  platforms: {', '.join(manifest.platforms)}")


def _tell_slices(manifest: slices.SliceManifest) -> None:
    click.echo(f"slow-downs on MIG slices, measured on {', '.join(manifest.gpus)}")
    rows = [
        (e.name, str(e.models), str(e.rows), f"{e.width.q90:.3f}", f"{e.width.q95:.3f}", e.data)
        for e in manifest.methods
    ]
    click.echo(columns(("method", "models", "rows", "q90", "q95", "data"), rows))


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of the manifests. None: the manifest has no such key."""

    group: str
    """``made``, ``files``, ``figures``, ``widths`` or ``data``."""
    key: str
    before: Any
    after: Any

    def sentence(self) -> str:
        """Write one line: ``figures.error: 0.12 -> 0.1``."""
        if self.group == "files":
            state = "changed" if None not in (self.before, self.after) else (
                "only in the second" if self.before is None else "only in the first"
            )  # fmt: skip
            return f"{self.key}: {state}"
        return f"{self.key}: {_short(self.before)} -> {_short(self.after)}"


def differences(before: BundleManifest, after: BundleManifest) -> list[Difference]:
    """Return the differences in the order of the manifests' keys, by group."""
    first, second = (
        dict(_flat(manifest.model_dump(mode="json", by_alias=True))) for manifest in (before, after)
    )
    changed = [
        Difference(_group(key), key, first.get(key), second.get(key))
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


def _short(value: object) -> str:
    if value is None:
        return "none"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
