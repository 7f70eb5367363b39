"""Model latency on a new platform: its evaluation, its bundle, a site's own platform, advice."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from berth.pilot.documents import write_text
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_training
from berth.predictor import platforms as catalogue

if TYPE_CHECKING:
    from berth.predictor.evaluation.latency.few_shot import FewShot
    from berth.predictor.latency.transfer.belief import Width

TASK = "dl-few-shot"
FIGURES = "few-shot-dl.json"


def evaluate_transfer(seed: int, report: Path | None, *, as_json: bool) -> None:
    """Curves of error against samples; with ``report`` also JSON, Markdown and a picture."""
    require_training("evaluation")
    from berth.predictor.evaluation.latency import (  # noqa: PLC0415
        few_shot,
        few_shot_report,
        few_shot_runs,
    )
    from berth.predictor.training.latency.few_shot.table import timm_table  # noqa: PLC0415

    table = timm_table()
    with step_bar("evaluating", few_shot.steps(table)) as advance:
        found = few_shot.evaluate_few_shot(table, seed=seed, advance=advance)
    own = few_shot_runs.evaluate_own_runs(seed=seed)
    document = {**found.as_dict(), "own_runs": [asdict(one) for one in own]}
    if report is not None:
        write_text(report / FIGURES, json.dumps(document, indent=1) + "\n")
        write_text(report / "few-shot-dl.md", few_shot_report.markdown(found, own))
        few_shot_report.draw(report / "few-shot-dl.svg", found)
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(
        f"Split: {found.split}.\nCells: share of rows within 10 % (least and greatest draw), MAPE."
    )
    for title, rows in few_shot_report.sections(found):
        header = (*few_shot_report.HEADER, *(f"k = {k}" for k in found.samples))
        click.echo(f"\n{title}\n{columns(header, rows)}")
    click.echo(f"\nOur own runs: {few_shot_runs.SPLIT}.")
    click.echo(columns(few_shot_report.OWN_HEADER, few_shot_report.own_rows(own)))
    click.echo("\nNew family of models, process, rows of all devices")
    click.echo(columns(few_shot_report.FAMILY_HEADER, few_shot_report.family_rows(found)))


def train_transfer(out: Path, seed: int, figures: Path | None) -> None:
    """The bundle from timm's measurements; widths from ``figures`` or from held-out devices."""
    require_training("training")
    from berth.predictor.evaluation.latency import few_shot  # noqa: PLC0415
    from berth.predictor.training.latency.few_shot import rivals  # noqa: PLC0415
    from berth.predictor.training.latency.few_shot.table import timm_table  # noqa: PLC0415
    from berth.predictor.training.latency.few_shot.train import train  # noqa: PLC0415

    table = timm_table()
    if figures is None:
        with step_bar("evaluating", few_shot.steps(table)) as advance:
            found = few_shot.evaluate_few_shot(
                table, seed=seed, methods=rivals.METHODS[:1], advance=advance
            )
    else:
        found = _read(figures)
    manifest = train(
        table, _widths(found), f"{found.split}; {', '.join(few_shot.WIDTHS[:2])}", out, seed=seed,
        command=" ".join(["berth", *sys.argv[1:]]),
    )  # fmt: skip
    click.echo(f"{manifest.id}: {manifest.training.rows} measurements, written to {out}")


def _read(path: Path) -> FewShot:
    from berth.predictor.evaluation.latency.few_shot import Curve, FamilyResult, FewShot  # noqa: PLC0415

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        curves = tuple(Curve(**_as_tuples(one)) for one in data["curves"])
        families = tuple(FamilyResult(**one) for one in data["families"])
        return FewShot(data["split"], tuple(data["samples"]), curves, families)
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DocumentError(
            path, "is not this evaluation",
            hint=f"`berth evaluate --task {TASK} --report DIR` writes {FIGURES}",
        ) from None  # fmt: skip


def _as_tuples(given: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(x) if isinstance(x, list) else x for key, x in given.items()}


def _widths(found: FewShot) -> list[Width]:
    """The widest of the devices of each kind: a new one may be as unlike."""
    from berth.predictor.evaluation.latency.few_shot import WIDTHS  # noqa: PLC0415
    from berth.predictor.latency.transfer.belief import Width  # noqa: PLC0415

    made = []
    for gpu in (True, False):
        own = [
            one.log_width for one in found.curves
            if one.gpu == gpu and (one.drawn_from, one.models, one.method) == WIDTHS
        ]  # fmt: skip
        if not own:
            raise UsageError("the evaluation has no figures of GPUs, or none of CPUs")
        widest = np.minimum.accumulate(np.max(own, axis=0))
        made += [
            Width(k, gpu, float(width)) for k, width in zip(found.samples, widest, strict=True)
        ]
    return made


def adapt_model(
    source: Path, name: str, files: Sequence[Path], out: Path, *, folder: Path | None
) -> None:
    """The bundle in ``source`` with platform ``name`` placed by runs of ``berth pilot dl``."""
    require_training("training")
    from berth.pilot.dl.campaign import read_runs  # noqa: PLC0415
    from berth.predictor.latency.transfer.bundle import DEFAULT_TRANSFER  # noqa: PLC0415
    from berth.predictor.training.latency.few_shot import adapt  # noqa: PLC0415

    kept = [path for path in files if path.suffix == ".jsonl"]
    models = [path for path in files if path.suffix == ".onnx"]
    stray = next((path for path in files if path not in kept and path not in models), None)
    if stray is not None or not kept:
        raise UsageError(
            "no file of runs is given" if stray is None else f"{stray} is neither runs nor a model",
            hint="give the .jsonl of `berth pilot dl` and the .onnx files that it measured",
        )
    known = catalogue.load(folder)
    platform = catalogue.get(name, known)
    every = [run for path in kept for run in read_runs(path)]
    runs = [run for run in every if run.platform == name]
    if not runs:
        seen = ", ".join(sorted({run.platform for run in every})) or "none"
        raise UsageError(f"no run is of platform {name!r}", hint=f"the runs are of: {seen}")
    samples = adapt.samples_of(runs, adapt.from_files(models), platform, known)
    start = DEFAULT_TRANSFER if source == Path("default") else source
    command = (
        f"berth train --task dl --adapt {source} --platform {name} "
        f"{' '.join(map(str, kept))} --out {out}, with {len(models)} ONNX files"
    )
    found = adapt.adapt(start, platform, samples, out, command=command)
    click.echo(f"{found.manifest.id}: {name} by {found.samples} runs, written to {out}")
    for words, off in (("none of them", found.before), ("all the others", found.after)):
        error = np.expm1(off)
        click.echo(
            f"  each run predicted from {words}: median error {float(np.median(error)):.0%}, "
            f"{float((error <= 0.1).mean()):.0%} within 10 %"
        )
    click.echo(f"  90 % interval: a factor of {np.exp(found.log_width):.2f} either way")


def advise_models(
    source: Path, name: str, files: Sequence[Path], count: int, *, folder: Path | None
) -> list[Path]:
    """Which of the ONNX ``files`` to measure on platform ``name``, the most telling first."""
    require_training("advice")
    from berth.predictor.graphs.reader import read_graph  # noqa: PLC0415
    from berth.predictor.graphs.roofline import native_numbers  # noqa: PLC0415
    from berth.predictor.graphs.roofs import roofs  # noqa: PLC0415
    from berth.predictor.latency.features import work_of  # noqa: PLC0415
    from berth.predictor.latency.transfer.bundle import DEFAULT_TRANSFER  # noqa: PLC0415
    from berth.predictor.training.latency.few_shot.adapt import advised  # noqa: PLC0415

    if not files:
        raise UsageError("no model is given", hint="name the .onnx files that could be measured")
    known = catalogue.load(folder)
    roof = roofs(known)[catalogue.get(name, known).name]
    graphs = [read_graph(path, batch=1) for path in files]
    order = advised(
        DEFAULT_TRANSFER if source == Path("default") else source,
        [work_of(graph) for graph in graphs], (roof, native_numbers(graphs[0])), batch=1,
        count=count,
    )  # fmt: skip
    return [files[place] for place in order]
