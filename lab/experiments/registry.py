"""Every experiment: its module, what it shows, how long it takes, what it trains."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Needs(StrEnum):
    """Libraries beyond the serving ones: extras of the distribution."""

    TRAIN = "train"
    DEEP = "deep"
    LANGUAGE = "language"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One line of ``python -m lab``; its module is imported when it runs."""

    module: str
    """With ``evaluate(options)``, ``train(options)`` or both."""
    what: str
    duration: str
    """Of the evaluation, on two cores."""
    trains: str = ""
    """What ``--train`` writes; empty: nothing is trained."""
    takes: tuple[str, ...] = ()
    """Names of ``command.MORE``: options that not every experiment has."""
    needs: Needs = Needs.TRAIN
    own_options: bool = False
    """The module has ``main(arguments) -> exit status`` and reads its options itself."""

    def function(self, name: str) -> Callable[..., Any]:
        """``evaluate``, ``train`` or ``main`` of the module."""
        found: Callable[..., Any] = getattr(importlib.import_module(self.module), name)
        return found


EXPERIMENTS: Mapping[str, Experiment] = {
    "gate": Experiment(
        "lab.gate.command",
        "every headline figure of the documentation: before, tolerance, now", "16 min",
        own_options=True,
    ),
    "programs": Experiment(
        "lab.kernels.evaluate_programs",
        "times of programs on a CPU and a GPU from one pilot, each kernel left out",
        "2 min", "the default bundle",
    ),
    "cpus": Experiment(
        "lab.cpus.evaluate_cpus",
        "whole programs on one core of CPUs that they never ran on, beside plain baselines",
        "1 min", "the scores of cores",
    ),
    "unseen-gpus": Experiment(
        "lab.kernels.unseen_gpus",
        "programs on an H100 and an MI300A without labels, beside baselines", "5 s",
    ),
    "relative": Experiment(
        "lab.relative.experiment",
        "relative performance on 15 devices from counters: cost model and baselines",
        "3 min", takes=("seeds",),
    ),
    "site-simulation": Experiment(
        "lab.site.site_simulation",
        "a site that learns from finished jobs: regret and coverage by submission",
        "10 min", "what posteriors assume (components.json)",
    ),
    "few-shot": Experiment(
        "lab.kernels.few_shot",
        "programs on a new platform against the number of its labels", "1 min",
    ),
    "vae-dnn": Experiment(
        "lab.published.vae.vae_dnn",
        "VAE + DNN (Nichols et al.) beside its random forest, on two data sets", "15 min",
        "a bundle of VAE + DNN", ("profiles", "reference", "platforms", "seeds"), Needs.DEEP,
    ),
    "xamm": Experiment(
        "lab.published.xamm.experiment",
        "xAMM (Dhakal et al.) beside the cost model; or trained and tested as CONFIG says",
        "30 min", "a bundle of xAMM", ("config", "seeds"), Needs.DEEP,
    ),
    "mig-slices": Experiment(
        "lab.slices.mig_slices", "slow-downs on MIG slices, each model left out", "8 min",
        "the bundle of MIG slices",
    ),
    "lm-architectures": Experiment(
        "lab.llm.lm_counts",
        "language models' weights and cache, counted, beside transformers' own classes", "10 min",
        needs=Needs.LANGUAGE, own_options=True,
    ),
    "language-models": Experiment(
        "lab.llm.language_models",
        "serving of language models: unseen models, frameworks and accelerators", "10 min",
        "the bundle of language models",
    ),
    "model-memory": Experiment(
        "lab.footprint.evaluate_memory", "peak memory of model graphs", "1 min",
        "what frameworks add to it, runtimes.json",
    ),
    "model-latency": Experiment(
        "lab.latency.evaluate_latency",
        "latency of models on known platforms, unseen models and families", "15 min",
        "the bundle of model latency",
    ),
    "graph-sources": Experiment(
        "lab.latency.combination",
        "sources of a model graph's time and their combination: error and coverage by situation",
        "15 min", "the sources' errors, source_errors.json",
    ),
    "model-transfer": Experiment(
        "lab.transfer.transfer_report", "latency of models on a new platform by few samples",
        "15 min", "what `berth train --task models --adapt` starts from",
    ),
    "data-parallel": Experiment(
        "lab.steps.data_parallel",
        "training on several GPUs of a node from a step on one (Gavel's measurements)", "3 s",
        "what a copy on each GPU costs, data_parallel.json",
    ),
    "training-precision": Experiment(
        "lab.steps.other_precision",
        "training in fp32 on GPUs, from steps in mixed precision (NeuSight's language models)",
        "3 min", "how far other precisions are off, step_precision.json", needs=Needs.DEEP,
    ),
    "training-steps": Experiment(
        "lab.steps.evaluate_steps",
        "training steps of models: the shipped predictor, TraPPM, transfer", "15 min",
        "the bundle of training steps", needs=Needs.DEEP,
    ),
    "operators": Experiment(
        "lab.operators.evaluate_operators",
        "single operators on unseen GPUs, and whole models as their sum", "5 min",
        "the bundle of operators",
    ),
    "graph-networks": Experiment(
        "lab.published.graph_networks.evaluate_networks",
        "DIPPM's graph network beside what is served", "10 min",
        needs=Needs.DEEP,
    ),
    "history": Experiment(
        "lab.history.run_times",
        "run times of a trace's jobs from past jobs alone, in order of time, beside baselines",
        "6 min",
        "the weights of past jobs, with PyTorch",
    ),
    "graph-language": Experiment(
        "lab.published.graph_language.evaluate_language",
        "GNN + language model from one configuration file, beside baselines", "hours",
        "all stages that are not done", ("config", "train_only"), Needs.LANGUAGE,
    ),
}  # fmt: skip
