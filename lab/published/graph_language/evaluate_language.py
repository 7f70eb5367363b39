"""GNN + language model beside the shipped process, on the same few rows.

The base learns from rows of neither the device nor the family that is held out. Each method then
learns from the same rows of the group and is tested on the same rows of the group's other models.
A text that is no number counts as a time of 0 s (an error of 100 %) and is counted beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.pilot.documents import read_toml
from berth.pilot.errors import UsageError
from berth.plugin.report.parts import text_table
from berth.plugin.report.progress_bars import step_bar
from berth.plugin.report.terminal import table_text
from lab.experiments.experiment import Options
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, figure_cells, figure_titles
from lab.ground.splits import Fold
from lab.ground.table import Floats, Places
from lab.latency import timm_runs
from lab.latency.timm_runs import Graphs, Runs
from lab.published.graph_language.corpus import published
from lab.published.graph_language.language_config import AdaptConfig, LanguageConfig
from lab.published.graph_language.stages import Stages
from lab.transfer.platform_kernel import fit, learn
from lab.transfer.transfer_cases import measured_cases

LANGUAGE = "GNN + language model"
PROCESS = "few-shot: process"
SHOWN = ("rows", "mean_error", "median_error", "within_10")
Baselines = Callable[[Stages, AdaptConfig], dict[str, Floats]]
"""Predicted seconds of the tested rows by the baseline's name."""
MOST_ROWS = 3000
"""Rows of the base that the process learns from, which takes their cube."""


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one group's tested rows."""

    group: str
    method: str
    given: int
    """Rows of the group that it learnt from."""
    figures: Figures
    failures: int
    """Answers that are no number."""


def results(stages: Stages, baselines: Baselines | None = None) -> list[Result]:
    """Train what is not trained yet; return every method on every group."""
    runs = stages.corpus.runs
    table = []
    for adaptation in stages.config.adapt:
        fold = stages.rows_of(adaptation)
        predicted: list[tuple[str, int, Floats]] = []
        for before in (True, False):
            count = 0 if before else len(fold.train)
            predicted.append((LANGUAGE, count, stages.predict(adaptation, before=before)))
        if baselines is not None:
            cheap = baselines(stages, adaptation)
            predicted += [(name, len(fold.train), seconds) for name, seconds in cheap.items()]
        measured = np.log(runs.seconds[fold.test])
        for method, count, seconds in predicted:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(np.nan_to_num(seconds, nan=0.0))
                errors = figures(measured, logs, runs.model[fold.test])
            group, failures = " ".join(adaptation.group), int(np.isnan(seconds).sum())
            table.append(Result(group, method, count, errors, failures))
    return table


def language_report(stages: Stages, baselines: Baselines | None = None) -> Report:
    """Report all methods, a table a group."""
    table = results(stages, baselines)
    base, samples = len(stages.corpus.division.base), stages.config.samples
    groups = list(dict.fromkeys(result.group for result in table))
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
                (result.method, str(result.given), *figure_cells(result.figures, SHOWN),
                 str(result.failures or "-"))
                for result in table if result.group == group
            ]) for group in groups
        ),
        {"language_model": described(stages), "split": split, "results": table},
        after=("A text that is no number counts as an error of 100 %.",),
    )  # fmt: skip


def described(stages: Stages) -> str:
    """Return the language model in a few words; a random one is called so."""
    model = stages.config.language_model
    trained = "every weight trained" if model.rank == 0 else f"LoRA rank {model.rank}"
    if model.random is None:
        return f"checkpoint {stages.checkpoint.folder.name}; {trained}"
    size = model.random
    shape = f"{size.layers} layers of {size.width}"
    return f"RANDOMLY INITIALISED, {shape}, never pre-trained; {trained}"


def cheap_baselines(stages: Stages, adaptation: AdaptConfig) -> dict[str, Floats]:
    """Return [tested rows] seconds by the process, from the base's and the group's rows."""
    runs, base, seed = stages.corpus.runs, stages.corpus.division.base, stages.config.seed
    fold, is_device = stages.rows_of(adaptation), adaptation.device is not None
    known = timm_runs.graphs()
    return {
        PROCESS: by_process(runs, known, base, fold, is_device=is_device, seed=seed),
    }


def by_process(
    runs: Runs, known: Graphs, base: Places, fold: Fold, *, is_device: bool, seed: int
) -> Floats:
    """Return [tested rows] seconds by the few-shot process of ``lab.transfer``."""
    some = np.sort(np.random.default_rng(seed).permutation(base)[:MOST_ROWS])
    whole = measured_cases(runs[np.concatenate((some, fold.train, fold.test))], known)
    old, new = whole[np.arange(len(some))], whole[np.arange(len(some), len(whole))]
    samples = np.arange(len(fold.train))
    joint = fit(old, learn(old, seed=seed)).joint(new.cases, new_platform=is_device)
    residual = joint.moved(samples, new.residual[samples]).mean
    return np.asarray(np.exp((residual + new.cases.log_roof)[len(samples) :]))


def train(options: Options) -> str:
    """Run all stages that are not done; return the losses of each."""
    stages = _stages(options)
    rows = [
        (name, str(len(losses)), *(f"{losses[n]:.4f}" if losses else "-" for n in (0, -1)))
        for name, losses in stages.all().items()
    ]
    header = ("stage", "epochs", "loss of the first", "of the last")
    table = text_table("Stages", header, rows)
    return f"{table_text(table)}\nwritten to {stages.out}"


def evaluate(options: Options) -> Report:
    """Train what is not trained; report all methods on the same rows."""
    return language_report(_stages(options), cheap_baselines)


def _stages(options: Options) -> Stages:
    """Return the stages of the configuration. Raises UsageError where none is named."""
    if options.config is None:
        raise UsageError("name a configuration file", hint="see lab/published/README.md")
    config = read_toml(options.config, LanguageConfig)
    stages = Stages(config, options.config.parent, published(config), step_bar)
    if config.language_model.path is not None:
        _ = stages.checkpoint  # a folder that is none is named before hours of training
    return stages
