"""Serving of models, pairs and accelerators never seen, and the bundle of language models.

Every part of every split is predicted from the other parts alone; baselines see the same parts.
Whether the process is used at all, and the width of the interval whose coverage is given, come
from the other parts, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from berth.pilot.errors import DocumentError
from berth.pilot.version import VERSION
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.bundle import Width
from berth.predictor.families.language_model.load import memory
from berth.predictor.families.language_model.physics import (
    HEADS,
    OFFLINE,
    SATURATED,
    TPOT,
    TTFT,
)
from berth.predictor.families.language_model.situation import Situation
from lab.experiments.experiment import Options, learn, read_figures
from lab.ground.evaluate import Result, held_out
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, results_section
from lab.ground.resume import Resume
from lab.llm import llm_bundle
from lab.llm.cases import table
from lab.llm.llm_baselines import baselines
from lab.llm.situations import (
    ACCELERATORS,
    BLOCKS,
    MODELS,
    PAIRS,
    ROWS,
    Held,
    coverage,
    folds,
    leave_out,
    predicted,
    widths_of,
)

OURS = "physics, calibrated, + process where it helps (shipped)"
PROCESS = "physics, calibrated, + process"
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
    PAIRS: "unseen (accelerator, framework)",
    ACCELERATORS: "unseen accelerator, each in turn",
}
_WITH_BASELINES = {
    (OFFLINE, ROWS), (OFFLINE, BLOCKS), (TTFT, BLOCKS), (TPOT, BLOCKS),
    (TTFT, ACCELERATORS), (TPOT, ACCELERATORS),
}  # fmt: skip
_SHOWN = ("rows", "median_error", "mean_error", "p90_error", "kendall_tau", "coverage",
          "interval_factor")  # fmt: skip


@dataclass(frozen=True, slots=True)
class SplitFound:
    """One split of one quantity."""

    results: list[Result]
    held: Held


def train(options: Options) -> str:
    """Write the bundle, fitted on LLM-Inference-Bench and aiconfigurator; return a summary."""
    widths = None
    if options.figures is not None:
        read_figures(options.figures)  # refuses a file that is no evaluation at all
        widths = read_widths(options.figures)
    manifest = learn(options, partial(llm_bundle.train, widths=widths), llm_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} quantities of {rows} rows"


def evaluate(options: Options) -> Report:
    """Report every split of every quantity, with the baselines."""
    resume, found = Resume(options.unfinished), {}
    with step_bar("evaluating", len(HEADS) * len(SPLITS)) as advance:
        for head in HEADS:
            for split in SPLITS:
                found[head, split] = split_results(head, split, options.seed, resume)
                advance()
    sections, shipped, by_accelerator, after = [], {}, {}, []
    for (head, split), one in found.items():
        title = f"{QUANTITIES[head]}. Split: {SPLITS[split]}"
        sections.append(results_section(title, one.results, _SHOWN))
        for name, key in (("median error", "median_error"), ("mean error", "mean_error")):
            shipped[f"{head}, {SPLITS[split]}: {name}"] = getattr(one.results[0].figures, key)
        if split == ACCELERATORS:
            by_accelerator[head] = _by_accelerator(head, one.held)
            cells = [(name, f"{error:.1%}") for name, error in by_accelerator[head].items()]
            title = f"{QUANTITIES[head]}. Where the accelerator was unseen"
            sections.append(Section(title, ("accelerator", "median error"), cells))
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
            "results": [{"head": h, **_plain(r)} for (h, _), one in found.items()
                        for r in one.results],
            "by_accelerator": by_accelerator,
            "refused": refused,
            "widths": {
                head: {
                    situation.value: width.model_dump(mode="json")
                    for situation, width in widths_of(
                        {split: found[head, split].held for split in SPLITS}
                    ).items()
                }
                for head in HEADS
            },
        },
        shipped,
        (*after, "Peak memory, energy and carbon have no public labels: not evaluated."),
    )  # fmt: skip


def split_results(head: str, split: str, seed: int, resume: Resume) -> SplitFound:
    """Return all methods on one split of one quantity, the shipped one first."""
    data = table(head)
    parts = folds(data, split, seed)
    key = key_of(head, split, seed)
    held = leave_out(data, parts, seed, resume=resume, key=key)
    methods = {
        OURS: predicted(held),
        PROCESS: held.process,
        ALONE: held.physics,
    }
    if (head, split) in _WITH_BASELINES:
        for baseline in baselines(seed):
            out = held_out(baseline, data, parts, seed=seed, resume=resume, key=key)
            methods[baseline.name] = out.log_predicted
    results = [
        Result(split, name, errors(head, held.measured, values)) for name, values in methods.items()
    ]
    if (inside := coverage(held, split)) is not None:
        covered = replace(results[0].figures, coverage=inside[0], interval_factor=inside[1])
        results[0] = replace(results[0], figures=covered)
    return SplitFound(results, held)


def key_of(head: str, split: str, seed: int) -> str:
    """Return the name under which the held-out rows of a split are kept for a second run."""
    sums = "/".join(source.sha256 for source in llm_bundle.SOURCES)
    return f"llm/{VERSION}/{sums}/{head}/{split}/{seed}"


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


def read_widths(path: Path) -> dict[str, dict[Situation, Width]]:
    """Head -> situation -> width, of an evaluation's JSON. Raises DocumentError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))["widths"]
        return {
            head: {Situation(name): Width(**width) for name, width in found.items()}
            for head, found in data.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise DocumentError(
            path,
            "is not an evaluation of language models",
            hint=f"`{llm_bundle.REPORT}` writes one",
        ) from None


def _by_accelerator(head: str, held: Held) -> dict[str, float]:
    names = np.array(table(head).accelerators)[held.row]
    own = predicted(held)
    return {
        str(name): errors(head, held.measured[here], own[here]).median_error
        for name in np.unique(names)
        for here in [names == name]
    }


def _plain(result: Result) -> dict[str, object]:
    return {"split": result.split, "method": result.family, "figures": result.figures}
