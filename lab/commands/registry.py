"""Every ``--task``: what it is in the words of ``--help``, and which options it takes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto

from berth.pilot.errors import UsageError
from lab.commands.asked import Asked


class Takes(Flag):
    """Options that only some tasks have."""

    NOTHING = 0
    PROFILE = auto()
    """One file of PROFILES."""
    PLATFORMS = auto()
    """PROFILES of several platforms, with --reference."""
    CONFIG = auto()
    """One configuration file in place of PROFILES; it names the folder of the bundle, too."""
    ADAPT = auto()
    """--adapt BUNDLE --platform NEW."""


@dataclass(frozen=True, slots=True)
class Task:
    """One line of the registry; no words: the command's own text says what it is."""

    evaluates: str = ""
    trains: str | None = None
    """None: nothing is trained."""
    long: str = ""
    """How long its evaluation takes, where that is more than a few minutes."""
    takes: Takes = Takes.NOTHING


TASKS: Mapping[str, Task] = {
    "kernels": Task(trains="", takes=Takes.PROFILE | Takes.ADAPT),
    "mig-slices": Task(
        "slow-downs on MIG slices", trains="the predictor of slow-downs on MIG slices"
    ),
    "relative": Task(
        "families on 15 OpenCL devices",
        trains="of many platforms from the counters of one run",
        takes=Takes.PLATFORMS,
    ),
    "xamm": Task("its ablations there", long="long"),
    "vae": Task("VAE + DNN"),
    "mini-apps": Task("on platforms never trained on"),
    "graphs-totals": Task("parameters and MACs of model graphs"),
    "trust": Task(),
    "few-shot": Task(),
    "llm": Task("language models", trains="of language models", long="long"),
    "memory": Task("peak memory of model graphs"),
    "dl": Task(
        "latency of models on known platforms",
        trains="latency of model graphs",
        takes=Takes.ADAPT,
    ),
    "operators": Task(
        "single operators on GPUs never seen, and whole models as their sum",
        trains="of single operators on GPUs",
    ),
    "graph-language": Task(
        trains="GNN + language model, with one configuration file in place of PROFILES",
        takes=Takes.CONFIG,
    ),
    "graph-networks": Task("DIPPM's networks beside trees", trains="", long="20 min"),
    "dl-few-shot": Task(
        "latency of models on a new platform by samples",
        trains="what --task dl --adapt starts from",
        long="15 min",
    ),
    "dl-training": Task(
        "training steps of models, TraPPM and its rivals",
        trains="of training steps of model graphs",
        long="15 min",
    ),
}
TRAINED = tuple(name for name, task in TASKS.items() if task.trains is not None)


def module_of(name: str) -> str:
    """Where task ``name`` is."""
    return f"lab.commands.{name.replace('-', '_')}"


def evaluation_help() -> str:
    """What can be evaluated, and how long it takes."""
    said = [
        f"{name}: {task.evaluates}" + (f" ({task.long})" if task.long else "")
        for name, task in TASKS.items()
        if task.evaluates
    ]
    return "; ".join(said) + "."


def training_help() -> str:
    """What can be trained."""
    return "; ".join(f"{name}: {task.trains}" for name, task in TASKS.items() if task.trains) + "."


def evaluate(asked: Asked) -> None:
    """Do what was asked. Raises UsageError where the task does not take an option."""
    refuse(asked)
    _function(asked.task, "evaluate")(asked)


def train(asked: Asked) -> None:
    """Do what was asked. Raises UsageError where the task does not take an option."""
    if Takes.CONFIG not in TASKS[asked.task].takes:
        _ = asked.bundle
        refuse(asked)
    _function(asked.task, "train")(asked)


def refuse(asked: Asked) -> None:
    """Raises UsageError for the first option that ``asked.task`` does not take."""
    takes = TASKS[asked.task].takes
    if asked.reference is not None and not (Takes.PLATFORMS in takes and asked.profiles):
        raise UsageError("--reference is for --task relative with PROFILES")
    if (asked.adapt is None) != (asked.platform is None):
        raise UsageError("--adapt BUNDLE and --platform NEW go together")
    if asked.adapt is not None:
        if Takes.ADAPT not in takes:
            raise UsageError(f"--adapt is for --task kernels and dl, not for --task {asked.task}")
        return
    if len(asked.profiles) > 1 and Takes.PLATFORMS not in takes:
        raise UsageError(f"one file of profiles is trained on, not {len(asked.profiles)}")
    if asked.profiles and not takes & (Takes.PROFILE | Takes.PLATFORMS | Takes.CONFIG):
        raise UsageError(f"--task {asked.task} takes no PROFILES; it has its own data sets")


def _function(task: str, verb: str) -> Callable[[Asked], None]:
    found: Callable[[Asked], None] = getattr(importlib.import_module(module_of(task)), verb)
    return found
