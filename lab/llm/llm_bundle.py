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
from lab.datasets.llm import BENCH, SERVING
from lab.datasets.llm_tables import INFERENCEX, TABLES
from lab.ground.report import markdown_table, model_card, source_lines
from lab.llm.cases import Cases, table
from lab.llm.held_out import Fit, cells_in, fit

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
    choices: Mapping[str, Sequence[RuleChoice]],
    advance: Callable[[str], None] = lambda _: None,
) -> LlmManifest:
    """Train all heads and write the bundle. The same data and seed give the same id.

    ``choices``: of an evaluation (``--report``). Raises UsageError where a head's are missing.
    """
    residuals, measured, entries = {}, {}, []
    for head in HEADS:
        data = table(head)
        fitted = fit(data, seed)
        residuals[head], measured[head] = fitted.process, fitted.measured
        entries.append(_entry(data, fitted, choices.get(head, ())))
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


def _entry(data: Cases, fitted: Fit, choices: Sequence[RuleChoice]) -> HeadEntry:
    if not choices:
        raise UsageError(
            f"there are no choices of rules for {data.head!r}",
            hint=f"give the evaluation.json of `{REPORT}`",
        )
    return HeadEntry(
        head=data.head,
        **dict(data.codes),
        cells=cells_in(data),
        rows=len(data),
        effects=fitted.effects,
        kernels=fitted.process.kernels,
        mean=fitted.process.mean,
        choices=tuple(choices),
    )


def card(manifest: LlmManifest) -> str:
    """``CARD.md`` as text."""
    choices = [
        (_WHAT[head.head], each.novelty.value, str(each.rows), str(each.folds), each.rule.value,
         f"{math.exp(each.log_width):.2f}",
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
                "Median error of each rule on held-out folds where one thing is new, the rule",
                "that answers there, and the factor from the middle to an end of its 90 %",
                "interval: each (hardware, framework, model) weighs the same. Of several things",
                "that are new the hardest decides; a new load or server beside it adds its own in",
                "quadrature (of logarithms). That of an unseen accelerator is of a handful: not",
                "guaranteed.",
                "",
                *markdown_table(
                    ("quantity", "new", "rows", "folds", "answers", "interval x", *RULES), choices
                ),
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
        },
        figures="What is new is in the name; the rule is decided by the other folds.",
        command=REPORT,
    )
