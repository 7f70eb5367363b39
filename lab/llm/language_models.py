"""Serving of models, pairs and accelerators never seen, and the bundle of language models.

Every part of every split is predicted from the other parts alone, by the plain rules too.
The width of the interval whose coverage is given comes from the other parts, too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from berth.pilot.errors import DocumentError
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model import bundle
from berth.predictor.families.language_model.bundle import Widths
from berth.predictor.families.language_model.candidates import RULES, RuleChoice
from berth.predictor.families.language_model.load import memory
from berth.predictor.families.language_model.physics import (
    HEADS,
    OFFLINE,
    SATURATED,
    TPOT,
    TTFT,
)
from lab.experiments.experiment import Options, learn, read_figures
from lab.gate.sources import digest_of
from lab.ground.evaluate import Result
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, results_section
from lab.ground.resume import Resume
from lab.llm import llm_bundle
from lab.llm.cases import table
from lab.llm.choices import DECIDING_ROWS, FOLDS_OF, novel_rows, section
from lab.llm.situations import (
    ACCELERATORS,
    BLOCKS,
    FRAMEWORKS,
    LOADS,
    MODELS,
    ROWS,
    Held,
    folds,
    leave_out,
)
from lab.llm.widths import calibrated, coverage, nested_log_widths

QUANTITIES = {
    OFFLINE: "LLM-Inference-Bench, tokens a second",
    SATURATED: "TensorRT-LLM's tables, tokens a second at maximum load",
    TTFT: "aiconfigurator and InferenceX, time to the first token",
    TPOT: "aiconfigurator and InferenceX, time of each further token",
}
SPLITS = {
    ROWS: "rows at random",
    BLOCKS: "unseen (hardware, framework, model)",
    MODELS: "unseen model",
    ACCELERATORS: "unseen accelerator, each in turn",
    FRAMEWORKS: "unseen server, each in turn",
    LOADS: "unseen ends of lengths, ratios and batches",
}
_SHOWN = ("rows", "median_error", "mean_error", "p90_error", "kendall_tau", "coverage",
          "interval_factor")  # fmt: skip


def train(options: Options) -> str:
    """Write the bundle with the figures and widths of an evaluation; return a summary. Raises
    DocumentError where ``options.figures`` is not such an evaluation."""
    read_figures(options.figures)  # refuses a file that is no evaluation at all
    widths, choices = read_evaluation(options.figures)
    with_both = partial(llm_bundle.train, widths=widths, choices=choices)
    manifest = learn(options, with_both, llm_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} quantities of {rows} rows"


def evaluate(options: Options) -> Report:
    """Report which rule answers where something is new, and every split of every quantity."""
    resume = Resume(options.unfinished)
    choices, sections, shipped, every, widths = {}, [], {}, [], {}
    splits = {
        head: [split for split in SPLITS if folds(table(head), split, options.seed)]
        for head in HEADS
    }
    steps = sum(map(len, splits.values())) + len(HEADS) * len(set(FOLDS_OF.values()))
    with step_bar("evaluating", steps) as advance:
        for head in HEADS:
            key = key_of(head, "choices", options.seed)
            novel = novel_rows(head, options.seed, resume, key, advance)
            choices[head] = [rows.choice().model_dump(mode="json") for rows in novel]
            sections.append(section(f"{QUANTITIES[head]}: something is new", novel))
        for head in HEADS:
            held = {}
            for split in splits[head]:
                held[split] = left_out(head, split, options.seed, resume)
                advance()
            widths[head] = calibrated(held)
            for split, rows in held.items():
                results = _results(head, split, rows, widths[head])
                sections.append(
                    results_section(f"{QUANTITIES[head]}. Split: {SPLITS[split]}", results, _SHOWN)
                )
                every += [
                    {"head": head, "split": split, "method": result.family,
                     "figures": result.figures}
                    for result in results
                ]  # fmt: skip
                ours = results[0].figures
                shipped[f"{head}, {SPLITS[split]}: median error"] = ours.median_error
                shipped[f"{head}, {SPLITS[split]}: mean error"] = ours.mean_error
    refused = {head: refused_but_ran(head) for head in (OFFLINE, TPOT)}
    after = [
        f"{head}: {no} of {ran} configurations that ran were predicted not to fit"
        for head, (no, ran) in refused.items()
    ]
    return Report(
        "Serving of language models",
        (
            "Errors are |predicted / measured - 1|; nothing was fitted on the rows scored.",
            "Where something is new, the rule of Berth is decided for each fold by the other "
            f"folds; of at most {DECIDING_ROWS} rows of a quantity.",
        ),
        tuple(sections),
        {
            "seed": options.seed,
            "splits": SPLITS,
            "results": every,
            "choices": choices,
            "refused": refused,
            "widths": {head: each.model_dump(mode="json") for head, each in widths.items()},
        },
        shipped,
        (*after, "Peak memory, energy and carbon have no public labels: not evaluated."),
    )


def _results(head: str, split: str, held: Held, widths: Widths) -> list[Result]:
    """Return the figures of each rule, the learnt one first with its coverage."""
    results = [
        Result(split, rule.value, errors(head, held.measured, held.by_rule[:, i]))
        for i, rule in reversed(list(enumerate(RULES)))
    ]
    if inside := coverage(held, nested_log_widths(held, split, widths)):
        covered = replace(results[0].figures, coverage=inside[0], interval_factor=inside[1])
        results[0] = replace(results[0], figures=covered)
    return results


def left_out(head: str, split: str, seed: int, resume: Resume) -> Held:
    """Return the held-out rows of a split; each row is predicted without its part of the split."""
    data, key = table(head), key_of(head, split, seed)
    return leave_out(data, folds(data, split, seed), seed, resume=resume, key=key)


def key_of(head: str, split: str, seed: int) -> str:
    """Return the name under which the held-out rows of a split are kept for a second run, of the
    same code and data."""
    sums = "/".join(source.sha256 for source in llm_bundle.SOURCES)
    return f"llm/{_code()}/{sums}/{head}/{split}/{seed}"


@cache
def _code() -> str:
    return digest_of(Path(str(module.__file__)).parent for module in (llm_bundle, bundle))


def errors(head: str, log_measured: Floats, log_predicted: Floats) -> Figures:
    """Return errors of tokens a second (work over latency) where that is the quantity: of the
    inverse."""
    sign = -1.0 if head in {OFFLINE, SATURATED} else 1.0
    rows = np.arange(len(log_measured))
    return figures(sign * log_measured, sign * log_predicted, rows, rows_for_tau=len(rows))


def refused_but_ran(head: str) -> tuple[int, int]:
    """Return how many configurations the memory rule would refuse, and how many ran in all."""
    cases = table(head).cases
    no = sum(memory(c.model, c.load).least > c.device.memory_bytes for c in cases)
    return no, len(cases)


def read_evaluation(
    path: Path | None,
) -> tuple[dict[str, Widths], dict[str, list[RuleChoice]]]:
    """Return the widths and the choices of rules of each head in an evaluation's JSON. Raises
    DocumentError."""
    try:
        data = json.loads((path or Path()).read_text(encoding="utf-8"))
        widths = {head: Widths.model_validate(own) for head, own in data["widths"].items()}
        choices = {
            head: [RuleChoice.model_validate(each) for each in own]
            for head, own in data["choices"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise DocumentError(
            path or "--figures",
            "is not an evaluation of language models",
            hint=f"`{llm_bundle.REPORT}` writes one",
        ) from None
    return widths, choices
