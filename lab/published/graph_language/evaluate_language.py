"""GNN + language model beside the GNN alone and cheap baselines, on the same few-shot rows.

The base learns from rows of neither the device nor the family that is held out; each method then
gets the same rows of the group and is tested on the same rows of the group's other models. A text
that is no number counts as a time of 0 s (an error of 100 %) and is counted beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, figure_cells, figure_titles
from lab.ground.table import Floats
from lab.published.graph_language.corpus import Adaptation
from lab.published.graph_language.gnn_baseline import GNN, GNN_SENTENCE, NAMES, Baseline
from lab.published.graph_language.stages import Stages

LANGUAGE = "GNN + language model"
SHOWN = ("rows", "mean_error", "median_error", "within_10")
Cheap = Callable[[Stages, Adaptation], dict[str, Floats]]
"""Predicted seconds of the tested rows by the name of the baseline."""


@dataclass(frozen=True, slots=True)
class Result:
    """Of one method on one group's tested rows."""

    group: str
    method: str
    given: int
    """Rows of the group that it learnt from."""
    figures: Figures
    failures: int
    """Answers that are no number."""


def results(stages: Stages, cheap: Cheap | None = None) -> list[Result]:
    """Train what is not trained yet; then every method on every group."""
    config, seconds = stages.parts.config, stages.parts.corpus.runs.seconds
    names = (GNN, *([] if config.sentences is None else [GNN_SENTENCE]))
    baselines = [Baseline(stages, name) for name in names]
    found = []
    for wanted in config.adapt:
        dealt = stages.dealt(wanted)

        def add(method: str, guess: Floats, given: int, dealt: Adaptation = dealt) -> None:
            models = stages.parts.corpus.runs.model[dealt.test]
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(np.nan_to_num(guess, nan=0.0))
                shown = figures(np.log(seconds[dealt.test]), logs, models)
            group = f"{dealt.group.column} {dealt.group.value}"
            found.append(Result(group, method, given, shown, int(np.isnan(guess).sum())))

        for before in (True, False):
            given = 0 if before else len(dealt.given)
            for one in baselines:
                add(NAMES[one.name], one.predict(wanted, before=before), given)
            answers = stages.predict(wanted, before=before).seconds
            add(LANGUAGE, np.array([np.nan if s is None else s for s in answers]), given)
        for method, guess in (cheap(stages, dealt) if cheap else {}).items():
            add(method, guess, len(dealt.given))
    return found


def evaluate(stages: Stages, cheap: Cheap | None = None) -> Report:
    """The table of all methods."""
    found = results(stages, cheap)
    base, samples = len(stages.parts.corpus.division.base), stages.parts.config.samples
    groups = list(dict.fromkeys(one.group for one in found))
    header = ("method", "of the group", *figure_titles(SHOWN), "no number")
    split = (
        f"base of {base} rows without {' and '.join(groups)}; {samples} rows of each group given, "
        "tested on its other architectures"
    )
    return Report(
        "GNN + language model on what is new",
        (f"Language model: {described(stages)}.", f"Split: {split}."),
        tuple(
            Section(group, header, [
                (one.method, str(one.given), *figure_cells(one.figures, SHOWN),
                 str(one.failures or "-"))
                for one in found if one.group == group
            ]) for group in groups
        ),
        {"language_model": described(stages), "split": split, "results": found},
        after=("A text that is no number counts as an error of 100 %.",),
    )  # fmt: skip


def described(stages: Stages) -> str:
    """The language model in a few words; a random one is called so."""
    wanted = stages.parts.config.language_model
    trained = "every weight trained" if wanted.rank == 0 else f"LoRA rank {wanted.rank}"
    if wanted.random is not None:
        size = wanted.random
        made = f"RANDOMLY INITIALISED, {size.layers} layers of {size.width}, never pre-trained"
        return f"{made}; {trained}"
    return f"checkpoint {stages.parts.checkpoint.folder.name}; {trained}"
