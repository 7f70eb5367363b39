"""Ratios between data-centre GPUs of ResNet-50 and BERT, by MLPerf Inference v4.1 and predicted.

Measured: samples per second of one accelerator, offline, the median over submitters, relative to
the H100-SXM. Predicted: times in fp16 of a ResNet-50 (160 pixels, batch 256) and of BERT-large (384
tokens, batch 64). Each accelerator in turn is left out of the fit of ``POWER_SHARE``; each
accelerator has the same weight in it.
"""

from __future__ import annotations

import math
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.families.graph.between_gpus import ANCHOR, POWER_SHARE, matrix_rate
from berth.predictor.families.graph.times import times
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import read_graph
from berth.predictor.hardware import platforms
from berth.predictor.hardware.by_sheet import place_named
from berth.predictor.hardware.catalogue import get
from berth.predictor.hardware.device import DataSheet, Numbers
from berth.predictor.hardware.roofs import roofs
from lab.datasets import locate
from lab.datasets.mlperf import rates
from lab.datasets.timm import GRAPHS
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.operators.transformer_operators import model_graph

MODELS = {"resnet50": "ResNet-50", "bert-99": "BERT", "bert-99.9": "BERT"}
SHARES = np.linspace(0.0, 0.8, 81)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Rate of one accelerator relative to the H100-SXM, measured and by each rule."""

    model: str
    device: DataSheet
    measured: float
    served: float
    bandwidth: float
    peak: float

    def by_rate(self, power_share: float) -> float:
        """Return the ratio of the rates of matrix products."""
        return _rate(self.device, power_share) / _rate(_anchor(), power_share)


def evaluate(options: Options) -> Report:
    """Report errors of the ratios by each rule."""
    del options  # nothing is drawn
    rows = ratios()
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    lines = []
    for row in rows:
        share = fitted([other for other in rows if other.device != row.device])
        rules = {
            "rate of matrix products, left out": row.by_rate(share),
            "served": row.served,
            "peak": row.peak,
            "bandwidth": row.bandwidth,
        }
        for rule, ratio in rules.items():
            errors[MODELS[row.model], rule].append(abs(ratio / row.measured - 1.0))
        cells = (f"{ratio:.2f}" for ratio in (row.measured, *rules.values()))
        lines.append((row.model, row.device.name, *cells, f"{share:.2f}"))
    header = (
        "model", "accelerator", "measured", "by rate", "served", "peak", "bandwidth", "share fitted"
    )  # fmt: skip
    totals = [
        (model, rule, f"{median(off):.1%}", f"{mean(off):.1%}")
        for (model, rule), off in errors.items()
    ]
    return Report(
        "Ratios between data-centre GPUs",
        (f"The shipped POWER_SHARE is {POWER_SHARE}; fitted on all {fitted(rows):.2f}.",),
        (
            Section("Relative to the H100-SXM", header, lines),
            Section("Errors", ("model", "rule", "median error", "mean error"), totals),
        ),
        {"split": "each accelerator left out"},
        {f"gpu ratios: {model}: {rule}": median(off) for (model, rule), off in errors.items()},
    )


def ratios() -> list[Ratio]:
    """Return the measured and predicted ratios of all CUDA accelerators. Raises ToolMissing."""
    per_gpu: dict[tuple[str, str], list[float]] = defaultdict(list)
    for rate in rates():
        if rate.scenario == "offline" and rate.model in MODELS:
            try:
                device = get(rate.accelerator)
            except UsageError:
                continue
            if matrix_rate(device) is not None:
                per_gpu[rate.model, device.name].append(rate.samples_per_s / rate.accelerators)
    typical = {key: median(values) for key, values in per_gpu.items()}
    names = sorted({name for _, name in typical})
    graphs = {"ResNet-50": _resnet(), "BERT": model_graph("bert_large", 64, 384)}
    served = {model: _seconds(graph, names) for model, graph in graphs.items()}
    anchor = _anchor()
    return [
        Ratio(
            model, get(name), value / typical[model, anchor.name],
            served[MODELS[model]][anchor.name] / served[MODELS[model]][name],
            (get(name).bytes_per_s or math.nan) / (anchor.bytes_per_s or math.nan),
            _rate(get(name), 0.0) / _rate(anchor, 0.0),
        )
        for (model, name), value in typical.items()
        if name != anchor.name
    ]  # fmt: skip


def fitted(rows: Sequence[Ratio]) -> float:
    """Return the power share with the least mean absolute log error over accelerators."""

    def cost(share: float) -> float:
        off = defaultdict(list)
        for row in rows:
            off[row.device.name].append(abs(math.log(row.by_rate(share) / row.measured)))
        return mean(mean(values) for values in off.values())

    return float(min(SHARES, key=cost))


def _anchor() -> DataSheet:
    return get(platforms.shipped()[ANCHOR].accelerator or ANCHOR)


def _rate(device: DataSheet, power_share: float) -> float:
    rate = matrix_rate(device, power_share)
    if rate is None:
        raise AssertionError("only devices with a rate are asked")
    return rate


def _seconds(graph: ModelGraph, names: Sequence[str]) -> dict[str, float]:
    """Return the predicted seconds in fp16 by device."""
    known = dict(platforms.shipped())
    places = {name: place_named(name, known) for name in names}
    known |= {place.name: place for place in places.values()}
    every = roofs(known)
    chosen = [every[place.name] for place in places.values()]
    by_place = {
        one.roof.platform: one.seconds.mid for one in times(graph, chosen, known, Numbers.FP16)
    }
    return {name: by_place[place.name] for name, place in places.items()}


def _resnet() -> ModelGraph:
    with TemporaryDirectory() as folder, tarfile.open(locate(GRAPHS)) as archive:
        member = archive.extractfile("./resnet50_160.onnx")
        if member is None:
            raise AssertionError("the data set has this graph")
        path = Path(folder) / "resnet50.onnx"
        path.write_bytes(member.read())
        return read_graph(path, batch=256)
