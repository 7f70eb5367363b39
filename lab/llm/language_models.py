"""Serving of models, servers and accelerators never seen, and the bundle of language models.

Every part of every fold is predicted from the other parts alone, by the plain rules too. The rule
and the width of the interval that are given for it come from the other parts, too.
"""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path

from pydantic import ValidationError

from berth.pilot.errors import DocumentError
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.language_model import bundle
from berth.predictor.families.language_model.candidates import RuleChoice
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
from lab.ground.report import Report
from lab.ground.resume import Resume
from lab.llm import llm_bundle
from lab.llm.cases import table
from lab.llm.held_out import DECIDING_ROWS, FOLDS_OF, errors_of, held_rows, section

QUANTITIES = {
    OFFLINE: "LLM-Inference-Bench, time of a batch",
    SATURATED: "TensorRT-LLM's tables, time at maximum load",
    TTFT: "aiconfigurator and InferenceX, time to the first token",
    TPOT: "aiconfigurator and InferenceX, time of each further token",
}


def train(options: Options) -> str:
    """Write the bundle with the choices of rules of an evaluation; return a summary. Raises
    DocumentError where ``options.figures`` is not such an evaluation."""
    read_figures(options.figures)  # refuses a file that is no evaluation at all
    with_choices = partial(llm_bundle.train, choices=read_evaluation(options.figures))
    manifest = learn(options, with_choices, llm_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} quantities of {rows} rows"


def evaluate(options: Options) -> Report:
    """Report the errors of each rule, and which one answers, by what is new."""
    resume = Resume(options.unfinished)
    choices, sections, shipped = {}, [], {}
    with step_bar("evaluating", len(HEADS) * len(set(FOLDS_OF.values()))) as advance:
        for head in HEADS:
            key = key_of(head, options.seed)
            found = held_rows(head, options.seed, resume=resume, key=key, advance=advance)
            sections.append(section(QUANTITIES[head], found))
            choices[head] = [
                rows.choice(novelty).model_dump(mode="json") for novelty, rows in found.items()
            ]
            for novelty, rows in found.items():
                nested = errors_of(rows.measured, rows.nested()[0], rows.block)
                shipped[f"{head}, {novelty.value}: median error"] = nested.median_error
    refused = {head: refused_but_ran(head) for head in (OFFLINE, TPOT)}
    after = [
        f"{head}: {no} of {ran} configurations that ran were predicted not to fit"
        for head, (no, ran) in refused.items()
    ]
    return Report(
        "Serving of language models",
        (
            "Errors are |predicted / measured - 1| of the time; nothing was fitted on the rows "
            "scored.",
            "The rule of Berth is decided for each fold by the other folds; of at most "
            f"{DECIDING_ROWS} rows of a quantity where more than a combination is new.",
        ),
        tuple(sections),
        {"seed": options.seed, "choices": choices, "refused": refused},
        shipped,
        (*after, "Peak memory, energy and carbon have no public labels: not evaluated."),
    )


def key_of(head: str, seed: int) -> str:
    """Return the name under which the held-out rows of a head are kept for a second run, of the
    same code and data."""
    sums = "/".join(source.sha256 for source in llm_bundle.SOURCES)
    return f"llm/{_code()}/{sums}/{head}/{seed}"


@cache
def _code() -> str:
    return digest_of(Path(str(module.__file__)).parent for module in (llm_bundle, bundle))


def refused_but_ran(head: str) -> tuple[int, int]:
    """Return how many configurations the memory rule would refuse, and how many ran in all."""
    cases = table(head).cases
    no = sum(memory(c.model, c.load).least > c.device.memory_bytes for c in cases)
    return no, len(cases)


def read_evaluation(path: Path | None) -> dict[str, list[RuleChoice]]:
    """Return the choices of rules of each head in an evaluation's JSON. Raises DocumentError."""
    try:
        data = json.loads((path or Path()).read_text(encoding="utf-8"))
        return {
            head: [RuleChoice.model_validate(each) for each in own]
            for head, own in data["choices"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise DocumentError(
            path or "--figures",
            "is not an evaluation of language models",
            hint=f"`{llm_bundle.REPORT}` writes one",
        ) from None
