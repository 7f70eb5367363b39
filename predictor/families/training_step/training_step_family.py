"""The training-step family behind the Family protocol: on one GPU, or on several GPUs of a node.

On several GPUs each GPU runs the step on its own batch; then every gradient crosses the GPU's link
2 (n - 1) / n times (ring all-reduce: Patarasuk and Yuan, 2009). ``data_parallel.json``, written by
``python -m lab data-parallel --train``, says how much of that time is not hidden by computation,
and the other costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.predictor.core.bundle import LearntFile
from berth.predictor.core.family import Bundles, Explanation, FamilyForecast, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction
from berth.predictor.core.workload import Workload
from berth.predictor.families.graph.model import (
    curves_of,
    graph_of,
    is_model,
    of_copies,
    places_by_units,
    point,
)
from berth.predictor.families.graph.workload import ModelWorkload, RunMode
from berth.predictor.families.training_step.bundle import (
    DEFAULT_STEPS_BUNDLE,
    STEPS_SCHEMA,
    StepModel,
    load,
)
from berth.predictor.families.training_step.predictor import is_usual, predict, usual
from berth.predictor.footprint.footprint import MOMENTUM, Footprint, MemoryTask, count, footprint
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import known_unit


class TrainingStepFamily:
    """The family that predicts a training step with SGD with momentum.

    Mixed precision on GPUs and fp32 on CPUs, unless the workload names a precision.
    """

    name = "training_step"

    def __init__(self, model: StepModel) -> None:
        self._model = model

    @classmethod
    def load(cls, bundles: Bundles) -> TrainingStepFamily:
        """Return the family with the site's bundle, else with the shipped one.

        Raises DocumentError.
        """
        return cls(load(bundles.get(STEPS_SCHEMA, DEFAULT_STEPS_BUNDLE)))

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload is a model graph to be trained."""
        return is_model(workload.document, RunMode.TRAINING)

    def forecast(self, question: Question) -> FamilyForecast:
        """Return a curve over core counts for each CPU, and one prediction for each GPU or slice.

        For a workload with several copies of the model: one prediction for that many whole GPUs.
        """
        document = question.document(ModelWorkload)
        copies = max(1, document.runs_on.gpus)
        graph, numbers = graph_of(document), precision_of(document)
        memory = {gpu: need.memory for gpu, need in step_memory(graph, numbers).items()}
        points: dict[str, list[Prediction]] = {}
        sources = {}
        for units, places in places_by_units(question.platforms, question.known).items():
            roofs = {roof.platform: roof for roof in places}
            for step in predict(
                graph, list(roofs), question.known, self._model, cores=units, numbers=numbers
            ):
                roof = roofs[step.platform]
                own = point(
                    document.name, roof, units, seconds=step.seconds, basis=step.basis,
                    memory=memory[roof.is_gpu], bound=step.bound,
                )  # fmt: skip
                platform = question.platforms[step.platform]
                if roof.is_gpu and copies > 1:
                    if platform.parent is not None:
                        continue
                    link = link_of(platform, question.known)
                    own = _of_copies(own, copies, graph.parameters, link)
                elif copies > 1:  # a step is of all batches, wherever it runs
                    own = replace(own, runtime_s=own.runtime_s.scaled(copies))
                points.setdefault(step.platform, []).append(own)
                known = step.basis is Basis.CALIBRATED
                width = step.seconds.log_width
                where = "unseen family" if known else "unseen device"
                if numbers is not None and not is_usual(numbers, is_gpu=roof.is_gpu):
                    where = "other precision"
                situation = f"{where}, {step.precision}"
                if roof.is_gpu and copies > 1:
                    situation += f"; a copy on each of {copies} GPUs"
                sources[step.platform] = (
                    SourceShare(f"{self.name}: rates of {step.learnt_on}", 1.0, width, situation),
                )
        return FamilyForecast(self._model.id, curves_of(points), sources=sources)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return a sentence that names the device whose learnt rates the prediction uses."""
        document = question.document(ModelWorkload)
        steps = predict(
            graph_of(document), [platform.name], question.known, self._model,
            numbers=precision_of(document),
        )  # fmt: skip
        if not steps:
            raise UsageError(f"{platform.name} does not compute in {document.precision}")
        step = steps[0]
        return Explanation(
            f"Forward, backward and SGD with momentum in {step.precision}, at rates learnt on "
            f"{step.learnt_on}."
        )


def link_of(platform: Platform, known: Mapping[str, Platform]) -> float | None:
    """Return the bandwidth of a GPU's link to other GPUs in bytes per second, one direction.

    None: not published.
    """
    unit = known_unit(platform, known)
    return None if unit is None else unit.sheet.link_bytes_per_s


def _of_copies(own: Prediction, copies: int, parameters: float, link: float | None) -> Prediction:
    """Return the prediction of data-parallel training with one model copy per GPU, from that of one
    GPU.

    Gradients are summed over all GPUs; each GPU may hold the gradients that it sends in addition to
    its own.
    """
    together = shipped_data_parallel()
    sent = parameters * GRADIENT_BYTES
    need, why_not = own.memory.gpu_bytes, None
    with_sent = None if need is None else Interval(need.low, need.mid + sent, need.high + sent)
    if link is None:
        why_not = "how fast its link to other GPUs is was not published"
    elif copies > together.most:
        why_not = f"no more than {together.most} GPUs were measured together in training"
    return of_copies(
        own,
        copies,
        seconds=together.shared(own.runtime_s, copies, sent, link or PCIE_MOST),
        memory=MemoryUse(gpu_bytes=with_sent),
        energy_j=own.energy_j,
        why_not=why_not,
    )


def precision_of(document: ModelWorkload) -> Numbers | None:
    """Return the precision that the document names; None: mixed on GPUs, fp32 on CPUs."""
    return None if document.precision is None else Numbers(document.precision)


def step_memory(graph: ModelGraph, numbers: Numbers | None) -> dict[bool, Footprint]:
    """Return the memory footprint of a step with SGD with momentum, on a GPU (True) and on a CPU
    (False)."""
    return {
        gpu: footprint(
            count(
                graph, MemoryTask.TRAINING, on_gpu=gpu, numbers=numbers or usual(is_gpu=gpu),
                moments=MOMENTUM,
            )
        )
        for gpu in (True, False)
    }  # fmt: skip


FILE = Path(__file__).with_name("data_parallel.json")
PCIE_MOST = 64e9
"""Bytes per second in one direction of 16 lanes of PCIe 5.0; faster links are not PCIe."""
GRADIENT_BYTES = 4
"""Bytes per parameter: mixed precision keeps weights and their gradients in fp32."""


class DataParallel(LearntFile):
    """Learnt cost of data-parallel training: overhead, and the visible share of the all-reduce
    time.

    The time on n GPUs over the time on one is ``1 + overhead + seen x (ring time / time on one
    GPU)``.
    """

    schema_: str = Field(default="berth.data-parallel/1", alias="schema")
    overhead: float = Field(ge=0)
    """Share of a one-GPU step lost by waiting for the slowest GPU and starting collective
    operations."""
    seen: float = Field(ge=0)
    """Seconds that a step is lengthened per second of ring all-reduce at the link's data-sheet
    rate."""
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval of the log ratio over PCIe, per unit of ``difficulty``."""
    other_link_log_width: float = Field(gt=0)
    """Half width of the 90 % interval of the log ratio over any other link."""
    most: int = Field(ge=2)
    """Largest number of GPUs that were measured together."""

    def log_ratio(self, one_s: float, gpus: int, gradient_bytes: float, link: float) -> float:
        """Return the log of a step's time on ``gpus`` GPUs over its time ``one_s`` on one GPU.

        ``gradient_bytes``: size of all gradients; ``link``: bytes per second of a GPU's link, one
        direction.
        """
        if gpus == 1:
            return 0.0
        return log_ratio(self.overhead, self.seen, ring(gpus, gradient_bytes, link) / one_s)

    def shared(self, alone: Interval, gpus: int, gradient_bytes: float, link: float) -> Interval:
        """Return the seconds of a step of ``gpus`` GPUs, in which each processes one batch.

        ``alone``: seconds of a step on one GPU.
        """
        if gpus == 1:
            return alone
        ends = (alone.low, alone.mid, alone.high)
        ratios = [self.log_ratio(seconds, gpus, gradient_bytes, link) for seconds in ends]
        low, mid, high = (
            seconds * math.exp(ratio) for seconds, ratio in zip(ends, ratios, strict=True)
        )
        own = self.log_width * difficulty(ratios[1])
        if link > PCIE_MOST:
            own = max(own, self.other_link_log_width)
        down, up = (math.hypot(math.log(end / mid), own) for end in (low, high))
        return Interval(mid * math.exp(-down), mid, mid * math.exp(up))


def log_ratio(overhead: float, seen: float, ring_share: float) -> float:
    """Return the log of the step time on several GPUs over the step time on one.

    log(1 + overhead + seen x ring_share); ``ring_share``: time of the ring all-reduce over the time
    of a step on one GPU.
    """
    return math.log(1 + overhead + seen * ring_share)


def ring(gpus: int, gradient_bytes: float, link: float) -> float:
    """Return the seconds of a ring all-reduce over ``gpus`` GPUs at the link's rate in bytes per
    second."""
    return 2 * (gpus - 1) / gpus * gradient_bytes / link


def difficulty(log_ratio: float) -> float:
    """Return the factor on interval widths of data-parallel steps: 0.1 plus the log ratio of step
    times."""
    return 0.1 + log_ratio


@cache
def shipped_data_parallel() -> DataParallel:
    return read_json(FILE, DataParallel)
