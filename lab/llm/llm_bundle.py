"""``python -m lab language-models --train``: the bundle of language models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.predictor.core.bundle import CARD, Training
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.language_model import bundle as bundles
from berth.predictor.families.language_model.bundle import (
    EFFECTS,
    EFFECTS_SCHEMA,
    LLM_SCHEMA,
    EffectsFile,
    HeadEntry,
    LlmManifest,
    Width,
    residual_file,
)
from berth.predictor.families.language_model.physics import (
    HEADS,
    OFFLINE,
    SATURATED,
    TPOT,
    TTFT,
)
from berth.predictor.families.language_model.residual import NUMBERS, TIES
from berth.predictor.families.language_model.situation import Situation
from lab.datasets.llm import BENCH, SERVING
from lab.datasets.llm_tables import INFERENCEX, TABLES
from lab.ground.report import markdown_table, model_card, source_lines
from lab.llm.cases import Cases, table
from lab.llm.process_onnx import check_agreement, to_onnx
from lab.llm.situations import SPLITS, cells_in, fit, folds, leave_out, widths_of

LIBRARIES = ("numpy", "onnx", "onnxruntime", "scipy")
STEPS = len(HEADS) + 1
REPORT = "python -m lab language-models --report DIR"
SOURCES = (BENCH, TABLES, SERVING, INFERENCEX)
_NEEDED = (Situation.BLOCK, Situation.PAIR, Situation.APART)
"""Situations without which a bundle is not written; a missing width of another is that of the next
less similar one, of the last that of the one before."""
_CHAINS = (
    (Situation.BLOCK, Situation.RELATIVE),
    (Situation.BLOCK, Situation.PAIR, Situation.MODEL, Situation.APART, Situation.NEW),
)
"""Situations that are each less similar than the one before."""
Widths = Mapping[Situation, Width]
_WHAT = {
    OFFLINE: "latency of a batch of equal requests (LLM-Inference-Bench)",
    SATURATED: "time of more requests than are resident at once (TensorRT-LLM's tables)",
    TTFT: "time to the first token under a closed load (aiconfigurator, InferenceX)",
    TPOT: "time of each further token under a closed load (aiconfigurator, InferenceX)",
}


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

    ``widths`` are an evaluation's (``--report``); without them all parts are left out here once
    more, which takes as long as the evaluation. Raises UsageError where one is missing.
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
        training=Training(
            sources={d.path: d.sha256 for d in SOURCES},
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    files[CARD] = card(manifest, apart).encode()
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def _widths(data: Cases, seed: int) -> Widths:
    splits = {split: folds(data, split, seed) for split in SPLITS}
    return widths_of({split: leave_out(data, parts, seed) for split, parts in splits.items()})


def _entry(data: Cases, widths: Widths) -> HeadEntry:
    if absent := [each.value for each in _NEEDED if each not in widths]:
        raise UsageError(
            f"there is no width for {data.head!r} in the situation {absent[0]!r}",
            hint=f"give the evaluation.json of `{REPORT}`",
        )
    # What is less similar is never predicted with more certainty.
    widened: dict[Situation, Width] = {}
    for chain in _CHAINS:
        widest = 0.0
        for situation in chain:
            if situation in widths:
                widest = max(widest, widths[situation].log_width)
                widened[situation] = widths[situation].model_copy(update={"log_width": widest})
    return HeadEntry(
        head=data.head,
        accelerators=data.codes.accelerators,
        frameworks=data.codes.frameworks,
        models=data.codes.models,
        cells=cells_in(data),
        rows=len(data),
        widths=widened,
    )


def card(manifest: LlmManifest, disagreement: float) -> str:
    """``CARD.md`` as text."""
    widths = [
        (_WHAT[head.head], situation.value, width.split, str(width.rows), str(width.groups),
         f"{math.exp(width.log_width):.2f}")
        for head in manifest.heads
        for situation, width in head.widths.items()
    ]  # fmt: skip
    return model_card(
        "serving of language models",
        manifest,
        {
            "What it is": [
                "Physical shares of the time (weights, cache, products, layers, messages), each",
                "scaled by what the framework achieves, and a Gaussian process over what that",
                "misses (ONNX, double precision; largest difference from the trainer's own output",
                f"{disagreement:.1e} in log seconds). An accelerator that was not measured takes",
                "both from its nearest relative; without one, an abstention.",
            ],
            "Data": [
                *source_lines(manifest.training.sources),
                "",
                "LLM-Inference-Bench: BSD-3-Clause. aiconfigurator, InferenceX and TensorRT-LLM's",
                "tables: Apache-2.0. 16-bit, and, except for offline throughput, 8- and 4-bit;",
                "inputs and outputs of 128 to 32,768 tokens. A first token is the median of a",
                "steady load where that was published, else a mean.",
            ],
            "What is not verified": [
                "Peak memory, energy and carbon: public data have no labels. They are counted, or",
                "a share of the rated power. Offline throughput at other bits than 16, or with",
                "outputs unlike inputs in length, stands on physics.",
            ],
            "Widths": [
                "Factor from the middle to an end of the 90 % interval, by how similar a case is",
                "to what was measured; from parts that nothing was fitted on, each block weighing",
                "the same. That of an unseen accelerator is of a handful of them: not guaranteed.",
                "What is less similar is never predicted with more certainty.",
                "",
                *markdown_table(
                    ("quantity", "situation", "split", "rows", "blocks", "factor"), widths
                ),
            ],
        },
        figures="The split is in the name.",
        command=REPORT,
    )
