"""Train the bundle of model latency: a process and interval width per setting, and its card."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from berth.predictor.core.arrays import array_file
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.graph.latency import bundle as bundles
from berth.predictor.families.graph.latency.bundle import (
    ARRAYS,
    LATENCY_SCHEMA,
    LatencyManifest,
    LatencyTraining,
    SettingEntry,
    arrays_of,
)
from berth.predictor.families.graph.latency.process import DESCRIPTORS, TERMS, LatencyProcess
from berth.predictor.hardware.device import Numbers
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.ground.evaluate import Family, held_out
from lab.ground.report import markdown_table, model_card, source_lines
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.latency import own_runs
from lab.latency.fit_latency import choose, fit_all, learnt
from lab.latency.samples import samples, works
from lab.latency.timm_devices import NUMBERS

LIBRARIES = ("numpy", "scipy")
HELD_OUT = Split("unseen model", "group")
STEPS = 13
NOVEL_SHARE = 0.98
"""Share of measured models that count as similar to others; the rest sets the novelty limit."""
SPLIT = "unseen model: five folds by architecture, each architecture weighing the same"


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[..., None] = lambda *_: None,
) -> LatencyManifest:
    """Fit every setting and write the bundle. The same data and seed give the same id."""
    data = samples()
    timm, batches = data.by_graph[data.graph], data.rows.batch[data.graph].astype(np.float64)
    own, own_batches = own_runs.own_sample(works())
    advance("data")
    knobs = choose(timm, seed)
    fitted = {**fit_all(timm, knobs), **fit_all(own, knobs)}
    advance("fit")
    usual = usual_settings([name for name in fitted if name != own_runs.SETTING])
    entries, difficulties = [], []
    for sample, batch in ((timm, batches), (own, own_batches)):
        held = held_out(
            Family("widths", learnt), sample, HELD_OUT.folds(sample, seed), seed=seed,
            advance=advance,
        )  # fmt: skip
        log_s, hard, _ = held.log_predicted[np.argsort(held.rows)].T
        for name in sorted(set(sample.setting.tolist()) & fitted.keys()):
            mine = np.flatnonzero((sample.setting == name) & ~np.isnan(log_s))
            score = np.abs(sample.log_seconds[mine] - log_s[mine]) / hard[mine]
            difficulties.append(hard[mine])
            entries.append(_entry(
                name, fitted[name], batch[sample.setting == name], name in usual,
                group_quantile(score.tolist(), sample.group[mine].tolist()),
            ))  # fmt: skip
    stored = array_file(arrays_of(fitted))
    manifest = LatencyManifest(
        schema=LATENCY_SCHEMA, **made_by(command, figures),
        settings=tuple(sorted(entries, key=lambda one: one.name)), terms=TERMS,
        descriptors=DESCRIPTORS, split=SPLIT,
        novel=float(np.quantile(np.concatenate(difficulties), NOVEL_SHARE)),
        training=LatencyTraining(
            sources={d.path: d.sha256 for d in (BENCHMARK, GRAPHS)}, seed=seed,
            length=knobs.length, noise=knobs.noise, graphs=len(works()),
            libraries=versions(LIBRARIES),
        ),
    )  # fmt: skip
    files = {ARRAYS: stored, CARD: card(manifest).encode()}
    return write_bundle(folder, manifest, files, load=bundles.load)


def _entry(
    name: str, one: LatencyProcess, batches: Floats, usual: bool, log_width: float
) -> SettingEntry:
    platform, precision, layout, software = name.split(" | ")
    return SettingEntry(
        name=name, platform=platform, numbers=NUMBERS.get(precision, Numbers.FP32),
        software=f"{precision}, {layout}, {software}", usual=usual, offset=one.offset,
        rows=len(one.points), batches=(int(batches.min()), int(batches.max())),
        log_width=log_width,
    )  # fmt: skip


def usual_settings(names: list[str]) -> set[str]:
    """Return the default setting of each platform and precision, and the one of our own CPU.

    Preferred are settings that are not compiled, then channels first, then the newest software.
    """
    best: dict[tuple[str, Numbers], str] = {}
    for name in sorted(names, key=_preference):
        platform, precision, *_ = name.split(" | ")
        best[platform, NUMBERS[precision]] = name
    return {*best.values(), own_runs.SETTING}


def _preference(name: str) -> tuple[bool, bool, bool, str]:
    """Sort key of a setting's name: the preferred setting is last."""
    _, precision, layout, software = name.split(" | ")
    return "compiled" not in software, layout == "nchw", precision != "bf16", software


def card(manifest: LatencyManifest) -> str:
    """Return the model card ``CARD.md``."""
    rows = [
        (
            one.name.replace(" | ", ", "), "yes" if one.usual else "no", str(one.rows),
            f"{one.batches[0]} to {one.batches[1]}", f"{math.exp(one.log_width * 0.7):.2f}",
        )
        for one in manifest.settings
    ]  # fmt: skip
    return model_card(
        "time of deep-learning models", manifest,
        {
            "What it is": [
                "Inference of a model graph: a sum of groups of operators with weights of at least",
                "0 by setting (platform, precision, layout, software), and a Gaussian process over",
                "how models resemble each other. Arrays in `processes.npz`, read by numpy; no",
                "graph and no name of a model is in it.",
            ],
            "Data": [
                *source_lines(manifest.training.sources),
                "- `lab/latency/tables/described.npz`: work of graphs that the archive lacks,",
                "  exported from timm; `lab/graphs/data/model_runs.jsonl`: our CPU.", "",
                f"timm: Apache-2.0; image models; {manifest.training.graphs} graphs; the batch on",
                "GPUs is the largest that fits (up to 2048), on CPUs 1. Small batches on GPUs are",
                "out of range: the interval is then wide, and the prediction says so.",
            ],
            "Settings": [
                "Width: factor from the middle to an end of the 90 % interval for a model of",
                f"median similarity. Split: {manifest.split}.", "",
                *markdown_table(("setting", "by default", "rows", "batches", "factor"), rows),
            ],
        },
        figures="The split and the rows are in the name.",
        command="python -m lab model-latency --report DIR",
    )  # fmt: skip
