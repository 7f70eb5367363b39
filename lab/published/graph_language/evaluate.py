"""GNN + language model beside the GNN alone and the cheap rivals, on the same few-shot rows.

The base learns from rows of neither the device nor the family that is held out; each method then
gets the same 32 rows of the group and is tested on the same rows of the group's other models.
A text that is no number counts as a time of 0 s (an error of 100 %) and is counted beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from lab.ground.figures import WITHIN
from lab.published.graph_language.baseline import GNN, GNN_SENTENCE, Baseline
from lab.published.graph_language.config import AdaptConfig
from lab.published.graph_language.examples import Adaptation
from lab.published.graph_language.stages import Stages

HEADER = ("method", "of the group", "rows", "MAPE", "median", "Acc(10 %)", "no number")


@dataclass(frozen=True, slots=True)
class Result:
    """Of one method on one group's tested rows."""

    group: str
    method: str
    given: int
    """Rows of the group that it learnt from."""
    base_rows: int
    rows: int
    mape: float
    median: float
    within: float
    """Acc(10 %)."""
    failures: int
    """Answers that are no number."""

    def cells(self) -> tuple[str, ...]:
        """Of the table, as ``HEADER`` says."""
        return (
            self.method,
            str(self.given),
            str(self.rows),
            f"{self.mape:.1%}",
            f"{self.median:.1%}",
            f"{self.within:.1%}",
            str(self.failures) if self.failures else "-",
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All methods on all groups."""

    language_model: str
    split: str
    results: tuple[Result, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def groups(self) -> dict[str, list[Result]]:
        """The results by group, in order."""
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.group, []).append(result)
        return found


Cheap = Callable[[Stages, Adaptation], dict[str, Floats]]
"""Predicted seconds of the tested rows by the name of the rival."""


def evaluate(stages: Stages, cheap: Cheap | None = None) -> Evaluation:
    """Train what is not trained yet; then every method on every group."""
    config, corpus = stages.parts.config, stages.parts.corpus
    names = [(GNN, "GNN")]
    if config.sentences is not None:
        names.append((GNN_SENTENCE, "GNN + sentence embedding"))
    baselines = [(Baseline(stages, name), shown) for name, shown in names]
    results = []
    for wanted, dealt in stages.adaptations():
        for before in (True, False):
            for baseline, shown in baselines:
                seconds = baseline.predict(wanted, before=before)
                results.append(_result(stages, wanted, dealt, shown, seconds, before=before))
            answered = stages.predict(wanted, before=before)
            told = np.array([np.nan if s is None else s for s in answered.seconds])
            results.append(
                _result(stages, wanted, dealt, "GNN + language model", told, before=before)
            )
        for shown, seconds in (cheap(stages, dealt) if cheap else {}).items():
            results.append(_result(stages, wanted, dealt, shown, seconds, before=False))
    return Evaluation(described(stages), _split(stages, len(corpus.division.base)), tuple(results))


def _result(
    stages: Stages,
    wanted: AdaptConfig,
    dealt: Adaptation,
    method: str,
    seconds: Floats | Sequence[float],
    *,
    before: bool,
) -> Result:
    corpus = stages.parts.corpus
    told = np.asarray(seconds, np.float64)
    truth = corpus.runs.seconds[dealt.test]
    error = np.abs(np.nan_to_num(told, nan=0.0) / truth - 1)
    return Result(
        group=f"{wanted.group.column} {wanted.group.value}",
        method=method,
        given=0 if before else len(dealt.given),
        base_rows=len(corpus.division.base),
        rows=len(truth),
        mape=float(error.mean()),
        median=float(np.median(error)),
        within=float((error <= WITHIN).mean()),
        failures=int(np.isnan(told).sum()),
    )


def described(stages: Stages) -> str:
    """The language model in a few words; a random one is called so."""
    wanted = stages.parts.config.language_model
    trained = "every weight trained" if wanted.rank == 0 else f"LoRA rank {wanted.rank}"
    if wanted.random is not None:
        size = wanted.random
        made = f"RANDOMLY INITIALISED, {size.layers} layers of {size.width}, never pre-trained"
        return f"{made}; {trained}"
    return f"checkpoint {stages.parts.checkpoint.folder.name}; {trained}"


def _split(stages: Stages, base: int) -> str:
    named = " and ".join(
        f"{wanted.group.column} {wanted.group.value}" for wanted, _ in stages.adaptations()
    )
    return (
        f"base of {base} rows without {named}; {stages.parts.config.samples} rows of each group "
        "given, tested on its other architectures"
    )
