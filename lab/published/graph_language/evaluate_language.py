"""GNN + language model beside the GNN alone and cheap baselines, on the same few-shot rows.

The base learns from rows of neither the device nor the family that is held out; each method then
gets the same rows of the group and is tested on the same rows of the group's other models. A text
that is no number counts as a time of 0 s (an error of 100 %) and is counted beside.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.cli.output.step_bar import Advance, step_bar
from berth.plugin.report.terminal import columns
from lab.experiments.experiment import Options
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, figure_cells, figure_titles
from lab.ground.table import Floats, Places
from lab.latency import timm_runs
from lab.latency.timm_runs import Graphs, Runs, scalars
from lab.published.graph_language.corpus import Adaptation, published
from lab.published.graph_language.gnn_baseline import GNN, GNN_SENTENCE, NAMES, Baseline
from lab.published.graph_language.language_config import read_config
from lab.published.graph_language.stages import Parts, Stages
from lab.transfer.platform_kernel import fit, learn
from lab.transfer.transfer_cases import measured_cases
from lab.transfer.transfer_methods import METHODS

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


def language_report(stages: Stages, cheap: Cheap | None = None) -> Report:
    """Return the table of all methods."""
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
    """Return the language model in a few words; a random one is called so."""
    wanted = stages.parts.config.language_model
    trained = "every weight trained" if wanted.rank == 0 else f"LoRA rank {wanted.rank}"
    if wanted.random is not None:
        size = wanted.random
        made = f"RANDOMLY INITIALISED, {size.layers} layers of {size.width}, never pre-trained"
        return f"{made}; {trained}"
    return f"checkpoint {stages.parts.checkpoint.folder.name}; {trained}"


PROCESS, TOTALS = "few-shot: process", "XGBoost on totals"
MOST_ROWS = 3000
"""Of the base, for the process, which takes their cube."""
HEAVY = 10.0
"""Weight of a given row of the new group beside one of the base, for the trees."""


def cheap(stages: Stages, dealt: Adaptation) -> dict[str, Floats]:
    """Return [tested rows] seconds by each, from the base's rows and those given."""
    corpus = stages.parts.corpus
    base, seed = corpus.division.base, stages.parts.config.seed
    found = few_shot(corpus.runs, timm_runs.graphs(), base, dealt, seed=seed)
    return found | {TOTALS: trees(corpus.runs, base, dealt, seed=seed)}


def few_shot(
    runs: Runs, known: Graphs, base: Places, dealt: Adaptation, *, seed: int
) -> dict[str, Floats]:
    """[tested rows] seconds by the methods of ``lab.transfer``; of a new family the process alone,
    as the others are made for new platforms and nothing else."""
    some = np.sort(np.random.default_rng(seed).permutation(base)[:MOST_ROWS])
    whole = measured_cases(runs[np.concatenate((some, dealt.given, dealt.test))], known)
    old, new = whole[np.arange(len(some))], whole[np.arange(len(some), len(whole))]
    samples = np.arange(len(dealt.given))
    kernel, residual = learn(old, seed=seed), new.residual[samples]
    if dealt.group.column == "device":
        guesses = {
            f"few-shot: {one.name}": one.fit(old, new.cases, kernel)(samples, residual)
            for one in METHODS
        }
    else:
        joint = fit(old, kernel).joint(new.cases, new_platform=False)
        guesses = {PROCESS: joint.moved(samples, residual).mean}
    return {
        name: np.asarray(np.exp((guess + new.cases.log_roof)[len(samples) :]))
        for name, guess in guesses.items()
    }


def trees(runs: Runs, base: Places, dealt: Adaptation, *, seed: int) -> Floats:
    """Return [tested rows] seconds: XGBoost on published totals and the run's settings."""
    import xgboost  # noqa: PLC0415 - a training library

    rows = np.concatenate((base, dealt.given))
    weight = np.concatenate((np.ones(len(base)), np.full(len(dealt.given), HEAVY)))
    model = xgboost.XGBRegressor(
        n_estimators=400, max_depth=6, learning_rate=0.08, subsample=0.8, random_state=seed,
        n_jobs=1,
    )  # fmt: skip
    model.fit(scalars(runs[rows]), np.log(runs.seconds[rows]), sample_weight=weight)
    return np.asarray(np.exp(model.predict(scalars(runs[dealt.test]))), np.float64)


def train(options: Options) -> str:
    """Return all stages that are not done; says what each ended with."""
    stages = _stages(options)
    rows = [
        (
            name,
            str(card.steps),
            f"{card.losses[0]:.4f}" if card.losses else "-",
            f"{card.losses[-1]:.4f}" if card.losses else "-",
        )
        for name, card in stages.all().items()
    ]
    header = ("stage", "steps", "loss of the first epoch", "of the last")
    return f"{columns(header, rows, indent=0)}\nwritten to {stages.parts.out}"


def evaluate(options: Options) -> Report:
    """Train what is not trained; then report all methods on the same rows."""
    return language_report(_stages(options), cheap)


def _stages(options: Options) -> Stages:
    """Read the stages of a configuration. Raises UsageError where no configuration is given."""
    file = options.config
    if file is None:
        raise UsageError("name a configuration file", hint="see lab/published/README.md")
    config = read_config(file)
    parts = Parts(config, file.parent, published(config))
    if config.language_model.path is not None:
        _ = parts.checkpoint  # a folder that is none is named before hours of training

    def progress(what: str, total: int) -> AbstractContextManager[Advance]:
        return step_bar(what, total)

    return Stages(parts, progress)
