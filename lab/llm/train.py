"""``python -m lab language-models --train``: the bundle of language models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.language_model import bundle as bundles
from berth.predictor.families.language_model.bundle import (
    EFFECTS,
    EFFECTS_SCHEMA,
    LLM_SCHEMA,
    EffectsFile,
    HeadEntry,
    Likeness,
    LlmManifest,
    LlmTraining,
    Width,
    residual_file,
)
from berth.predictor.families.language_model.physics import HEADS
from berth.predictor.families.language_model.residual import NUMBERS, TIES
from lab.datasets.llm import BENCH, SERVING
from lab.llm.card import card
from lab.llm.held_out import SPLITS, fit, held_out, width
from lab.llm.table import Table, table
from lab.llm.to_onnx import check_agreement, to_onnx

LIBRARIES = ("numpy", "onnx", "onnxruntime", "scipy")
STEPS = len(HEADS) + 1
Widths = Mapping[Likeness, Width]


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    widths: Mapping[str, Widths] | None = None,
    advance: Callable[[str], None] = lambda _: None,
) -> LlmManifest:
    """Train all heads and write the bundle. The same data and seed give the same id.

    ``widths`` are an evaluation's (``--report``); without them all parts are left
    out here once more, which takes as long as the evaluation. Raises UsageError where one is
    missing.
    """
    files, effects, entries, apart = {}, [], [], 0.0
    for head in HEADS:
        data = table(head)
        found = fit(data, seed)
        raw = to_onnx(found.process)
        apart = max(apart, check_agreement(raw, found.process, data.ties, data.numbers))
        files[residual_file(head)] = raw
        effects.append(found.effects)
        entries.append(_entry(data, _widths(data, seed) if widths is None else widths[head]))
        advance(head)
    file = EffectsFile(schema=EFFECTS_SCHEMA, heads=tuple(effects))
    files[EFFECTS] = to_json(file).encode()
    manifest = LlmManifest(
        schema=LLM_SCHEMA,
        **made_by(command, figures),
        heads=tuple(entries),
        ties=TIES,
        numbers=NUMBERS,
        training=LlmTraining(
            sources={d.path: d.sha256 for d in (BENCH, SERVING)},
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    files[CARD] = card(manifest, apart).encode()
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def _widths(data: Table, seed: int) -> Widths:
    found = {SPLITS[split]: width(held_out(data, split, seed), split) for split in SPLITS}
    return {likeness: one for likeness, one in found.items() if one is not None}


def _entry(data: Table, widths: Widths) -> HeadEntry:
    if absent := [likeness.value for likeness in Likeness if likeness not in widths]:
        raise UsageError(
            f"there is no width for {data.head!r} where the likeness is {absent[0]!r}",
            hint="give the evaluation.json of `python -m lab language-models --report DIR`",
        )
    # What is less alike is never told with more certainty.
    widest, told = 0.0, {}
    for likeness in Likeness:
        widest = max(widest, widths[likeness].log_width)
        told[likeness] = widths[likeness].model_copy(update={"log_width": widest})
    pairs = {f"{a} | {f}" for a, f in zip(data.accelerators, data.frameworks, strict=True)}
    blocks = {
        f"{a} | {f} | {data.codes.models[m]}"
        for a, f, m in zip(data.accelerators, data.frameworks, data.ties[:, 2], strict=True)
    }
    return HeadEntry(
        head=data.head,
        accelerators=data.codes.accelerators,
        frameworks=data.codes.frameworks,
        models=data.codes.models,
        pairs=tuple(sorted(pairs)),
        blocks=tuple(sorted(blocks)),
        rows=len(data),
        widths=told,
    )
