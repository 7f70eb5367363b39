"""``python -m lab language-models --train``: the bundle of language models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.predictor.core.bundle import CARD, Training
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.language_model import bundle as bundles
from berth.predictor.families.language_model.bundle import (
    LLM_SCHEMA,
    RESIDUALS,
    HeadEntry,
    LlmManifest,
    Widths,
    residuals_file,
)
from berth.predictor.families.language_model.candidates import RULES, RuleChoice
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
from lab.llm.situations import Fit, cells_in, fit
from lab.llm.widths import NOTHING

LIBRARIES = ("numpy", "scipy")
STEPS = len(HEADS) + 1
REPORT = "python -m lab language-models --report DIR"
SOURCES = (BENCH, TABLES, SERVING, INFERENCEX)
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
    widths: Mapping[str, Widths],
    choices: Mapping[str, Sequence[RuleChoice]],
    advance: Callable[[str], None] = lambda _: None,
) -> LlmManifest:
    """Train all heads and write the bundle. The same data and seed give the same id.

    ``widths``, ``choices``: of an evaluation (``--report``). Raises UsageError where a head's are
    missing.
    """
    residuals, measured, entries = {}, {}, []
    for head in HEADS:
        data = table(head)
        fitted = fit(data, seed)
        residuals[head], measured[head] = fitted.process, fitted.measured
        entries.append(_entry(data, fitted, widths.get(head, NOTHING), choices.get(head, ())))
        advance(head)
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
    files = {RESIDUALS: residuals_file(residuals, measured), CARD: card(manifest).encode()}
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def _entry(data: Cases, fitted: Fit, widths: Widths, choices: Sequence[RuleChoice]) -> HeadEntry:
    if Situation.BLOCK not in widths.situations or not widths.lengths.log_width:
        raise UsageError(
            f"there are no widths for {data.head!r}",
            hint=f"give the evaluation.json of `{REPORT}`",
        )
    return HeadEntry(
        head=data.head,
        **dict(data.codes),
        cells=cells_in(data),
        rows=len(data),
        widths=widths,
        effects=fitted.effects,
        kernels=fitted.process.kernels,
        mean=fitted.process.mean,
        choices=tuple(choices),
    )


def card(manifest: LlmManifest) -> str:
    """``CARD.md`` as text."""
    widths = [
        (_WHAT[head.head], part, width.split, str(width.rows), str(width.groups),
         f"{math.exp(width.log_width):.2f}")
        for head in manifest.heads
        for part, width in (
            *((situation.value, each) for situation, each in head.widths.situations.items()),
            ("lengths beyond, at a factor e", head.widths.lengths),
            ("sequences beyond, at a factor e", head.widths.sequences),
            ("device not measured", head.widths.relative),
            ("server not measured", head.widths.framework),
        )
        if width is not None
    ]  # fmt: skip
    choices = [
        (_WHAT[head.head], each.novelty.value, str(each.rows), str(each.folds), each.rule.value,
         *(f"{each.errors[rule].median_error:.1%}" for rule in RULES))
        for head in manifest.heads
        for each in head.choices
    ]  # fmt: skip
    return model_card(
        "serving of language models",
        manifest,
        {
            "What it is": [
                "Physical shares of the time (weights, cache, products, layers, messages), each",
                "scaled by what the framework achieves, and a Gaussian process over what that",
                "misses, on all measured rows. An accelerator that was not measured takes both",
                "from its nearest relative; without one, an abstention.",
            ],
            "Which rule answers": [
                "Median error of each rule on held-out folds where one thing is new, and the rule",
                "that answers there; where nothing is new, the learnt one.",
                "",
                *markdown_table(("quantity", "new", "rows", "folds", "answers", *RULES), choices),
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
                "the same. What a load outside the measured range adds, and what a device adds",
                "that was not measured, are added to it in quadrature (of logarithms). That of an",
                "unseen accelerator is of a handful of them: not guaranteed.",
                "",
                *markdown_table(
                    ("quantity", "situation", "split", "rows", "blocks", "factor"), widths
                ),
            ],
        },
        figures="The split is in the name.",
        command=REPORT,
    )
