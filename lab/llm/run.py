"""``python -m lab language-models``: serving of models, pairs and accelerators never seen.

Every part of every split is predicted from the other parts alone (``training.llm.held_out``);
rivals see the same parts. Whether the process is used at all, and the width of the interval
whose coverage is given, come from the other parts too. A report folder keeps what is done, part
by part, and a second run goes on from there; a changed data set, seed or source makes all of it
new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from berth.pilot.documents import write_text
from berth.predictor.families import language_model as serving
from berth.predictor.families.language_model.bundle import Likeness, Width
from berth.predictor.families.language_model.memory import memory
from berth.predictor.families.language_model.physics import HEADS, OFFLINE, TPOT, TTFT, Floats
from lab import llm as training
from lab.datasets import llm as reader
from lab.datasets.llm import BENCH, SERVING
from lab.llm.baselines import RIVALS
from lab.llm.held_out import (
    ACCELERATORS,
    BLOCKS,
    PAIRS,
    ROWS,
    SPLITS,
    Held,
    coverage,
    decided,
    left_out,
    parts,
    width,
)
from lab.llm.table import table

OURS = "physics, calibrated, + process where it helps (shipped)"
PROCESS = "physics, calibrated, + process"
ALONE = "physics, calibrated"
TASKS = {
    OFFLINE: "LLM-Inference-Bench, tokens a second",
    TTFT: "aiconfigurator's silicon data, time to the first token",
    TPOT: "aiconfigurator's silicon data, time of each further token",
}
WORDS = {
    ROWS: "rows at random",
    BLOCKS: "unseen (hardware, framework, model)",
    PAIRS: "unseen (accelerator, framework)",
    ACCELERATORS: "unseen accelerator, each in turn",
}
_WITH_RIVALS = {
    (OFFLINE, ROWS), (OFFLINE, BLOCKS), (TTFT, BLOCKS), (TPOT, BLOCKS),
    (TTFT, ACCELERATORS), (TPOT, ACCELERATORS),
}  # fmt: skip
STEPS = len(HEADS) * len(SPLITS)


@dataclass(frozen=True, slots=True)
class Figures:
    """A method on a split; errors are |predicted / measured - 1|."""

    head: str
    split: str
    method: str
    rows: int
    median_error: float
    mean_error: float
    p90_error: float
    kendall_tau: float
    coverage_90: float | None = None
    factor_90: float | None = None
    """Median over rows of upper over middle."""


@dataclass(frozen=True, slots=True)
class LlmEvaluation:
    """All figures with their splits."""

    seed: int
    results: tuple[Figures, ...]
    widths: dict[str, dict[str, Width]]
    """Head -> likeness -> width."""
    by_accelerator: dict[str, dict[str, float]]
    """Head -> accelerator -> median error where it was unseen."""
    refused: dict[str, tuple[int, int]]
    """Head -> configurations that ran and were said not to fit, and all that ran."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "seed": self.seed,
            "splits": WORDS,
            "results": [asdict(r) for r in self.results],
            "by_accelerator": self.by_accelerator,
            "refused": self.refused,
            "widths": {
                head: {k: v.model_dump(mode="json") for k, v in found.items()}
                for head, found in self.widths.items()
            },
            "shipped": self.shipped(),
        }

    def shipped(self) -> dict[str, float]:
        """The shipped method's figures by name, for a bundle's manifest."""
        found: dict[str, float] = {}
        for r in self.results:
            if r.method == OURS:
                name = f"{r.head}, {WORDS[r.split]}"
                found[f"{name}: median error"] = r.median_error
                found[f"{name}: mean error"] = r.mean_error
        return found


def evaluate(
    seed: int = 0, report: Path | None = None, advance: Callable[[str], None] = lambda _: None
) -> LlmEvaluation:
    """All splits of all heads. Raises ToolMissing where a data set is absent."""
    results: list[Figures] = []
    widths: dict[str, dict[str, Width]] = {}
    by_accelerator = {}
    for head in HEADS:
        widths[head] = {}
        for split in SPLITS:
            found = split_figures(head, split, seed, report)
            results += found[0]
            held = found[1]
            one = width(held, split)
            if one is not None:
                widths[head][SPLITS[split].value] = one
            if split == ACCELERATORS:
                by_accelerator[head] = _by_accelerator(head, held)
            advance(f"{head}, {split}")
    refused = {head: refused_but_ran(head) for head in (OFFLINE, TPOT)}
    return LlmEvaluation(seed, tuple(results), widths, by_accelerator, refused)


def refused_but_ran(head: str) -> tuple[int, int]:
    """Measured configurations that the memory rule would have refused, and all of them."""
    cases = table(head).cases
    no = sum(memory(c.model, c.load).least > c.device.memory_bytes for c in cases)
    return no, len(cases)


def split_figures(
    head: str, split: str, seed: int, report: Path | None
) -> tuple[list[Figures], list[Held]]:
    """One split of one head: everybody's figures, and our held-out rows."""
    data = table(head)
    held: list[Held] = []
    rivals: dict[str, list[float]] = {name: [] for name in RIVALS}
    for fold, part in enumerate(parts(data, split, seed)):
        kept = None if report is None else report / "parts" / f"{head}-{split}-{fold}.json"
        done = _read(kept, seed)
        if done is None:
            done = {
                "held": [asdict(h) for h in left_out(data, part, fold, seed)],
                "rivals": {n: [float(v) for v in ask(data, part, seed)]
                           for n, ask in RIVALS.items() if (head, split) in _WITH_RIVALS},
            }  # fmt: skip
            if kept is not None:
                write_text(kept, json.dumps({"key": _key(seed), **done}))
        held += [Held(**{**h, "likeness": Likeness(h["likeness"])}) for h in done["held"]]
        for name, values in done["rivals"].items():
            rivals[name] += values
    inside = coverage(held, split)
    measured = np.array([h.measured for h in held])
    rivals = {n: values for n, values in rivals.items() if values}
    said = {
        OURS: [h.said for h in decided(held, split)],
        PROCESS: [h.said for h in held],
        ALONE: [h.physics for h in held],
        **rivals,
    }
    figures = [
        _figures((head, split, name), measured, np.array(values),
                 inside if name == OURS else None)
        for name, values in said.items()
    ]  # fmt: skip
    return figures, held


def _figures(
    what: tuple[str, str, str],
    measured: Floats,
    said: Floats,
    inside: tuple[float, float] | None,
) -> Figures:
    head, split, method = what
    # Tokens a second are work over latency: their error is that of the inverse.
    sign = -1.0 if head == OFFLINE else 1.0
    error = np.abs(np.expm1(sign * (said - measured)))
    return Figures(
        head=head,
        split=split,
        method=method,
        rows=len(error),
        median_error=float(np.median(error)),
        mean_error=float(error.mean()),
        p90_error=float(np.quantile(error, 0.9)),
        kendall_tau=float(kendalltau(said, measured).statistic),
        coverage_90=None if inside is None else inside[0],
        factor_90=None if inside is None else inside[1],
    )


def _by_accelerator(head: str, held: Sequence[Held]) -> dict[str, float]:
    names = table(head).accelerators
    sign = -1.0 if head == OFFLINE else 1.0
    found: dict[str, list[float]] = {}
    for h in held:
        found.setdefault(names[h.row], []).append(
            abs(float(np.expm1(sign * (h.said - h.measured))))
        )
    return {name: float(np.median(values)) for name, values in sorted(found.items())}


def _read(path: Path | None, seed: int) -> dict[str, Any] | None:
    if path is None or not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return found if found.get("key") == _key(seed) else None


def _key(seed: int) -> str:
    """Changes with anything that a part's figures depend on."""
    digest = hashlib.sha256(f"{seed} {BENCH.sha256} {SERVING.sha256}".encode())
    digest.update(Path(reader.__file__).read_bytes())
    folders = [Path(room.__file__ or "").parent for room in (serving, training)]
    for folder in [*folders, Path(__file__).parent]:
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".json"} and path.name not in _BESIDE:
                digest.update(path.read_bytes())
    return digest.hexdigest()


_BESIDE = {"bundle.py", "predictor.py", "run.py", "report.py", "train.py", "card.py", "to_onnx.py"}
"""What only passes figures on."""
