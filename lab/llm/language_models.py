"""Serving of models, pairs and accelerators never seen, and the bundle of language models.

Every part of every split is predicted from the other parts alone; baselines see the same parts.
The width of the interval whose coverage is given comes from the other parts, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from lab.ground.evaluate import Result, held_out
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, results_section
from lab.ground.resume import Resume
from lab.llm import llm_bundle
from lab.llm.cases import table
from lab.llm.llm_baselines import baselines
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

OURS = "physics, calibrated, + process (shipped)"
ALONE = "physics, calibrated"
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
_WITH_BASELINES = {
    (OFFLINE, ROWS), (OFFLINE, BLOCKS), (TTFT, BLOCKS), (TPOT, BLOCKS),
    (TTFT, ACCELERATORS), (TPOT, ACCELERATORS),
}  # fmt: skip
_SHOWN = ("rows", "median_error", "mean_error", "p90_error", "kendall_tau", "coverage",
          "interval_factor")  # fmt: skip


def train(options: Options) -> str:
    """Write the bundle with the figures and widths of an evaluation; return a summary. Raises
    DocumentError where ``options.figures`` is not such an evaluation."""
    read_figures(options.figures)  # refuses a file that is no evaluation at all
    widths = read_widths(options.figures)
    manifest = learn(options, partial(llm_bundle.train, widths=widths), llm_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} quantities of {rows} rows"


def evaluate(options: Options) -> Report:
    """Report every split of every quantity, with the baselines."""
    resume = Resume(options.unfinished)
    sections, shipped, every, widths = [], {}, [], {}
    splits = {
        head: [split for split in SPLITS if folds(table(head), split, options.seed)]
        for head in HEADS
    }
    with step_bar("evaluating", sum(map(len, splits.values()))) as advance:
        for head in HEADS:
            predicted = {}
            for split in splits[head]:
                predicted[split] = left_out(
                    head, split, options.seed, resume,
                    with_baselines=(head, split) in _WITH_BASELINES,
                )  # fmt: skip
                advance()
            widths[head] = calibrated({split: held for split, (_, held) in predicted.items()})
            for split, (methods, held) in predicted.items():
                results = _results(head, split, methods, held, widths[head])
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
        ("Errors are |predicted / measured - 1|; nothing was fitted on the rows scored.",),
        tuple(sections),
        {
            "seed": options.seed,
            "splits": SPLITS,
            "results": every,
            "refused": refused,
            "widths": {head: each.model_dump(mode="json") for head, each in widths.items()},
        },
        shipped,
        (*after, "Peak memory, energy and carbon have no public labels: not evaluated."),
    )


def _results(
    head: str, split: str, methods: Mapping[str, Floats], held: Held, widths: Widths
) -> list[Result]:
    """Return the figures of each method, and the coverage of the shipped one."""
    results = [
        Result(split, name, errors(head, held.measured, values)) for name, values in methods.items()
    ]
    if inside := coverage(held, nested_log_widths(held, split, widths)):
        covered = replace(results[0].figures, coverage=inside[0], interval_factor=inside[1])
        results[0] = replace(results[0], figures=covered)
    return results


def left_out(
    head: str, split: str, seed: int, resume: Resume, *, with_baselines: bool
) -> tuple[dict[str, Floats], Held]:
    """Return the log seconds of the held-out rows by method, the shipped one first, and the rows
    themselves; each row is predicted without its part of the split."""
    data = table(head)
    parts, key = folds(data, split, seed), key_of(head, split, seed)
    held = leave_out(data, parts, seed, resume=resume, key=key)
    methods = {OURS: held.process, ALONE: held.physics}
    for baseline in baselines(seed) if with_baselines else ():
        out = held_out(baseline, data, parts, seed=seed, resume=resume, key=key)
        methods[baseline.name] = out.log_predicted
    return methods, held


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


def read_widths(path: Path | None) -> dict[str, Widths]:
    """Return the widths of each head in an evaluation's JSON. Raises DocumentError."""
    try:
        data = json.loads((path or Path()).read_text(encoding="utf-8"))["widths"]
        return {head: Widths.model_validate(widths) for head, widths in data.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise DocumentError(
            path or "--figures",
            "is not an evaluation of language models",
            hint=f"`{llm_bundle.REPORT}` writes one",
        ) from None
