"""``python -m lab model-latency --train``: the bundle of learnt times."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.intervals import group_quantile
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.graph.latency import bundle as bundles
from berth.predictor.families.graph.latency.bundle import (
    ARRAYS,
    LATENCY_SCHEMA,
    LatencyManifest,
    LatencyTraining,
    SettingEntry,
    arrays_of,
)
from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.latency.inputs import LIKENESS, TERMS
from berth.predictor.hardware.roofs import Numbers
from berth.predictor.learning.folds import folds
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.latency import own_runs
from lab.latency.card import card
from lab.latency.process import Fitted, Sample, choose, fit_all, held_out
from lab.latency.samples import samples, works
from lab.transfer.devices import NUMBERS

LIBRARIES = ("numpy", "scipy")
FOLDS = 5
STEPS = FOLDS + 3
NOVEL_SHARE = 0.98
"""Of measured models that are like others of them."""
SPLIT = "unseen model: five folds by architecture, each architecture weighing the same"


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[[str], None] = lambda _: None,
) -> LatencyManifest:
    """Fit every setting and write the bundle. The same data and seed give the same id."""
    data = samples()
    rows = np.flatnonzero(data.graph)
    timm, batches = data.by_graph[rows], data.rows.batch[rows].astype(np.float64)
    own, own_batches = own_runs.sample(works())
    advance("data")
    knobs = choose(timm, seed)
    fitted = {**fit_all(timm, knobs), **fit_all(own, knobs)}
    advance("fit")
    both = {one: _held(sample, seed, advance) for one, sample in (("timm", timm), ("own", own))}
    usual = usual_settings([name for name in fitted if name != own_runs.SETTING])
    entries, difficulties = [], []
    for name, one in sorted(fitted.items()):
        sample, many = (own, own_batches) if name == own_runs.SETTING else (timm, batches)
        told, hard = both["own" if sample is own else "timm"]
        mine = np.flatnonzero((sample.setting == name) & ~np.isnan(told))
        score = np.abs(sample.log_seconds[mine] - told[mine]) / hard[mine]
        difficulties.append(hard[mine])
        entries.append(_entry(
            name, one, many[sample.setting == name], name in usual,
            group_quantile(score.tolist(), sample.group[mine].tolist()),
        ))  # fmt: skip
    stream = io.BytesIO()
    np.savez_compressed(
        stream, allow_pickle=False, **arrays_of({n: f.process for n, f in fitted.items()})
    )
    manifest = LatencyManifest(
        schema=LATENCY_SCHEMA, **made_by(command, figures),
        settings=tuple(entries), terms=TERMS, likeness=LIKENESS, split=SPLIT,
        novel=float(np.quantile(np.concatenate(difficulties), NOVEL_SHARE)),
        training=LatencyTraining(
            sources={d.path: d.sha256 for d in (BENCHMARK, GRAPHS)}, seed=seed,
            length=knobs.length, noise=knobs.noise, graphs=len(works()),
            libraries=versions(LIBRARIES),
        ),
    )  # fmt: skip
    files = {ARRAYS: stream.getvalue(), CARD: card(manifest).encode()}
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def _held(
    sample: Sample, seed: int, advance: Callable[[str], None]
) -> tuple[Floats, Floats]:  # fmt: skip
    everything = np.arange(len(sample))
    held = folds(sample.group.tolist(), FOLDS, seed)
    parts = [(np.setdiff1d(everything, part), np.array(part)) for part in held]
    if len(set(sample.setting.tolist())) == 1:
        return held_out(sample, parts, seed)
    return held_out(sample, parts, seed, lambda: advance("widths"))


def _entry(name: str, one: Fitted, batches: Floats, usual: bool, log_width: float) -> SettingEntry:
    platform, precision, layout, software = name.split(" | ")
    return SettingEntry(
        name=name, platform=platform, numbers=NUMBERS.get(precision, Numbers.FP32),
        software=f"{precision}, {layout}, {software}", usual=usual, offset=one.process.offset,
        rows=len(one.process.points), batches=(int(batches.min()), int(batches.max())),
        log_width=log_width,
    )  # fmt: skip


def usual_settings(names: list[str]) -> set[str]:
    """Of each platform and precision: not compiled where that was measured, channels first, the
    newest software; and our own CPU's only one."""
    best: dict[tuple[str, Numbers], str] = {}
    for name in sorted(names, key=_preference):
        platform, precision, *_ = name.split(" | ")
        best[platform, NUMBERS[precision]] = name
    return {*best.values(), own_runs.SETTING}


def _preference(name: str) -> tuple[bool, bool, bool, str]:
    """Best last."""
    _, precision, layout, software = name.split(" | ")
    return "compiled" not in software, layout == "nchw", precision != "bf16", software
