"""Latency of models on a platform never trained on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from berth.pilot.documents import write_text
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import command_line
from lab.experiments.options import Options
from lab.experiments.shown import show

if TYPE_CHECKING:
    from berth.predictor.families.graph.latency.transfer.belief import Width
    from lab.transfer.curves import FewShot

FIGURES = "few-shot-dl.json"


def evaluate(options: Options) -> None:
    """Curves of error against samples; with ``report`` also JSON, Markdown and a picture."""
    from lab.transfer import curves as few_shot  # noqa: PLC0415
    from lab.transfer import own_runs as few_shot_runs  # noqa: PLC0415
    from lab.transfer import report as few_shot_report  # noqa: PLC0415
    from lab.transfer.table import timm_table  # noqa: PLC0415

    table = timm_table()
    with step_bar("evaluating", few_shot.steps(table)) as advance:
        found = few_shot.evaluate_few_shot(table, seed=options.seed, advance=advance)
    own = few_shot_runs.evaluate_own_runs(seed=options.seed)
    told = [
        f"Split: {found.split}.\nCells: share of rows within 10 % (least and greatest draw), MAPE."
    ]
    for title, rows in few_shot_report.sections(found):
        header = (*few_shot_report.HEADER, *(f"k = {k}" for k in found.samples))
        told.append(f"\n{title}\n{columns(header, rows)}")
    told += [
        f"\nOur own runs: {few_shot_runs.SPLIT}.",
        columns(few_shot_report.OWN_HEADER, few_shot_report.own_rows(own)),
        "\nNew family of models, process, rows of all devices",
        columns(few_shot_report.FAMILY_HEADER, few_shot_report.family_rows(found)),
    ]
    document = {**found.as_dict(), "own_runs": [asdict(one) for one in own]}
    show(options, document, "\n".join(told), file=FIGURES)
    if options.report is not None:
        write_text(options.report / "few-shot-dl.md", few_shot_report.markdown(found, own))
        few_shot_report.draw(options.report / "few-shot-dl.svg", found)


def train(options: Options) -> str:
    """The bundle from timm's measurements; widths from ``figures`` or from held-out devices."""
    from lab.transfer import baselines as rivals  # noqa: PLC0415
    from lab.transfer import curves as few_shot  # noqa: PLC0415
    from lab.transfer.table import timm_table  # noqa: PLC0415
    from lab.transfer.train import train as run  # noqa: PLC0415

    table = timm_table()
    if options.figures is None:
        with step_bar("evaluating", few_shot.steps(table)) as advance:
            found = few_shot.evaluate_few_shot(
                table, seed=options.seed, methods=rivals.METHODS[:1], advance=advance
            )
    else:
        found = _read(options.figures)
    manifest = run(
        table, _widths(found), f"{found.split}; {', '.join(few_shot.WIDTHS[:2])}", options.bundle,
        seed=options.seed, command=command_line(),
    )  # fmt: skip
    return f"{manifest.id}: {manifest.training.rows} measurements"


def _read(path: Path) -> FewShot:
    from lab.transfer.curves import Curve, FamilyResult, FewShot  # noqa: PLC0415

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
            hint=f"`python -m lab model-transfer --report DIR` writes {FIGURES}",
        ) from None  # fmt: skip


def _as_tuples(given: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(x) if isinstance(x, list) else x for key, x in given.items()}


def _widths(found: FewShot) -> list[Width]:
    """The widest of the devices of each kind: a new one may be as unlike."""
    from berth.predictor.families.graph.latency.transfer.belief import Width  # noqa: PLC0415
    from lab.transfer.curves import WIDTHS  # noqa: PLC0415

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
