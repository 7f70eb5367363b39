"""What is tried: scenarios of source and target, and the paper's four experiments."""

from __future__ import annotations

from dataclasses import dataclass

from lab.datasets.aiwc import CPUS
from lab.published.xamm.choices import (
    Choices,
    Downstream,
    Embedding,
    Machines,
)
from lab.published.xamm.machine_model import Aggregation, Scale

GPUS = (
    "fiji-furyx", "firepro-s9150", "gtx1080", "gtx1080ti", "hawaii-r9-290x", "hawaii-r9-295x2",
    "k20c", "k40c", "polaris-rx480", "tahiti-hd7970", "titanx",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scenario:
    """Which machines are predicted from which."""

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    unseen_target: bool = False
    """Each target in turn has no times in training, only its signature."""

    @property
    def learnt(self) -> tuple[str, ...]:
        """Targets in training; of a target never trained on: all other GPUs."""
        return GPUS if self.unseen_target else self.targets


SCENARIOS = (
    Scenario("CPU -> CPU", CPUS, CPUS),
    Scenario("CPU -> GPU", ("xeon_es-2697v2", "i7-6700k"), GPUS),
    Scenario("GPU -> CPU and GPU", ("gtx1080ti", "polaris-rx480"), (*CPUS, *GPUS)),
)
"""Every pair of the first; of the others two sources each, for time: the reference and the newest
other CPU, the newest cards of the two makers."""
NEW_TARGET = Scenario(
    "CPU -> GPU never trained on",
    ("xeon_es-2697v2",),
    ("gtx1080ti", "k20c", "polaris-rx480", "tahiti-hd7970"),
    unseen_target=True,
)
"""The newest and the oldest card of each maker; the other seven are in training."""

RAW = Embedding.RAW
PLAIN = Choices(embedding=RAW, machines=Machines.NONE)
NAMED = Choices(embedding=RAW, machines=Machines.NAMES)


def _with(base: Choices, downstream: Downstream) -> Choices:
    return Choices(base.embedding, base.machines, base.aggregation, base.scale, downstream)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table of the report."""

    name: str
    question: str
    choices: tuple[Choices, ...]


ATTENTION = Choices()
"""As published: attention embeddings and AMMs."""
EXPERIMENTS = (
    Experiment(
        "1. The whole of it",
        "raw counters against attention + AMM, for each downstream model",
        tuple(_with(base, kind) for kind in Downstream for base in (PLAIN, NAMED, ATTENTION)),
    ),
    Experiment(
        "2. Embeddings",
        "which embedding, the machines given by name, XGBoost",
        tuple(Choices(embedding=kind, machines=Machines.NAMES) for kind in Embedding),
    ),
    Experiment(
        "3. Machine models",
        "attention and AMM each against raw, XGBoost",
        tuple(
            Choices(embedding=kind, machines=machines)
            for kind in (RAW, Embedding.ATTENTION)
            for machines in Machines
        ),
    ),
    Experiment(
        "4. Aggregations",
        "the three options of Algorithm 1 and both readings of its step 6, XGBoost",
        tuple(
            Choices(aggregation=aggregation, scale=scale)
            for aggregation in Aggregation
            for scale in Scale
        ),
    ),
)
NEW_TARGET_CHOICES = (
    PLAIN,
    Choices(embedding=RAW),
    *(Choices(aggregation=aggregation) for aggregation in Aggregation),
)


def tried(scenario: Scenario) -> tuple[Choices, ...]:
    """Each different way through xAMM that the scenario needs, once."""
    if scenario.unseen_target:
        return NEW_TARGET_CHOICES
    return tuple(dict.fromkeys(c for e in EXPERIMENTS for c in e.choices))


def label(choices: Choices, *, downstream: bool = True) -> str:
    """In tables."""
    machines = {
        Machines.NONE: "",
        Machines.NAMES: " + names",
        Machines.AMM: f" + AMM {choices.aggregation}"
        + (" (divided)" if choices.scale is Scale.DIVIDE else ""),
    }[choices.machines]
    return f"{choices.embedding}{machines}" + (f", {choices.downstream}" if downstream else "")
