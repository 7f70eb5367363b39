"""From a model's file to its graph's features, and to its time on all platforms.

Bars (2 cores, one thread, warm child, weights stripped): ResNet-50 at most 10 ms (15 ms with the
prediction), a BERT of 1,500 nodes (base's width, 14 layers) at most 20 ms (30 ms with the
prediction), the same graph again at most 0.2 ms. Wall time through the child, and processor time of
the same work in one process, which other programs on the machine disturb less.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from graphs_bench.models import bert, resnet50
from timing.calls import times_s

from berth.predictor.families.graph.latency.bundle import load
from berth.predictor.families.graph.latency.predictor import LatencyPredictor
from berth.predictor.families.graph.sources import MEASURED, Time, shipped_errors
from berth.predictor.families.graph.times import operators, times
from berth.predictor.graphs import infer, onnx_file
from berth.predictor.graphs.child import encode
from berth.predictor.graphs.graph import ModelGraph, decode
from berth.predictor.graphs.reader import Reader
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roofs

RUNS = 50
BATCH = 8
SIZES = {"sequence": 128}
AGAIN_BAR_MS = 0.2


def features(graph: ModelGraph) -> object:
    """A matrix as predictors take it: a row a node."""
    return np.concatenate(
        [
            graph.attributes, graph.input_shape, graph.output_shape, graph.macs[:, None],
            graph.flops[:, None], graph.node_parameters[:, None], graph.moved_bytes[:, None],
        ],
        axis=1,
    ).astype(np.float32)  # fmt: skip


class Fresh:
    """The learnt source, with nothing cached from call to call."""

    def __init__(self) -> None:
        self.model = load()

    def __call__(
        self, graph: ModelGraph, places: Sequence[Roof], _: object, numbers: Numbers | None
    ) -> dict[str, list[Time]]:
        above = shipped_errors().unlike_above
        told = LatencyPredictor(self.model).times(graph, places, numbers)
        return {
            one.platform: [Time(one.seconds, one.basis, MEASURED, unlike=one.difficulty > above)]
            for one in told
        }


def predictions_ms(read: Callable[[], ModelGraph], graph: ModelGraph) -> list[tuple[float, float]]:
    """Median and best from the file to times on all platforms in fp16.

    By measured models and the roofline; with the operators' sum besides; the same graph again.
    """
    known = platforms.shipped()
    places, fresh = list(roofs(known).values()), Fresh()

    def told(*sources: object) -> Callable[[], object]:
        return lambda: times(read(), places, known, Numbers.FP16, sources)  # type: ignore[arg-type]

    def again() -> object:
        return times(graph, places, known, Numbers.FP16)

    ways = (told(fresh), told(fresh, operators), again)
    return [times_ms(way, time.perf_counter) for way in ways]


def times_ms(work: Callable[[], object], clock: Callable[[], float]) -> tuple[float, float]:
    """Median and best of ``RUNS`` after a warm-up."""
    found = times_s(work, RUNS, clock)
    return 1e3 * statistics.median(found), 1e3 * min(found)


def alone(path: Path) -> ModelGraph:
    """The child's and the parent's work in one process."""
    handle = os.open(path, os.O_RDONLY)
    try:
        return decode(encode(infer.infer(onnx_file.read(handle), BATCH, SIZES)))
    finally:
        os.close(handle)


def main() -> None:
    """Print the table."""
    load = os.getloadavg()[0]
    print(f"load of the machine {load:.1f} (a quiet one: below 1)\n")
    print("model        file      in file  nodes  kinds  wall: median  best   cpu: median  bar")
    with tempfile.TemporaryDirectory() as folder, Reader() as reader:
        for name, data, bar_ms, whole_bar_ms in (
            ("ResNet-50", resnet50(), 10, 15),
            ("BERT-1500", bert(layers=14), 20, 30),
        ):
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(data)
            graph = reader.read(path, batch=BATCH, sizes=SIZES)
            in_file = len(graph) + sum(graph.folded.values())

            def through_child(path: Path = path) -> object:
                return features(reader.read(path, batch=BATCH, sizes=SIZES))

            def in_one(path: Path = path) -> object:
                return features(alone(path))

            median, best = times_ms(through_child, time.perf_counter)
            cpu, _ = times_ms(in_one, time.process_time)
            verdict = "met" if median <= bar_ms else "missed"
            print(
                f"{name:11}  {len(data) >> 10:4} kB  {in_file:7}  {len(graph):5}  "
                f"{len(graph.kinds):5}  {median:9.2f} ms  {best:5.2f}  {cpu:8.2f} ms  "
                f"{bar_ms} ms: {verdict}"
            )
            first, whole, again = predictions_ms(
                lambda path=path: reader.read(path, batch=BATCH, sizes=SIZES), graph
            )
            print(
                f"  file to times on {len(platforms.shipped())} platforms: measured models and "
                f"roofline {first[0]:.2f} ms (best {first[1]:.2f}), with operators on other GPUs "
                f"{whole[0]:.2f} ms (best {whole[1]:.2f}), bar {whole_bar_ms} ms: "
                f"{'met' if whole[0] <= whole_bar_ms else 'missed'}; the same graph "
                f"again {again[0]:.4f} ms: {'met' if again[0] <= AGAIN_BAR_MS else 'missed'}"
            )


if __name__ == "__main__":
    main()
