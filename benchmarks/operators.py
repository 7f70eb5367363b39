"""The operator model's time: all kinds of ResNet-50's nodes on ten GPUs at once.

Bar (2 cores, one thread): at most 3 ms with the graph read. The first call also loads the bundle.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from graphs_bench.models import resnet50
from timing.calls import times_s

from berth.predictor.families.graph.operators.predictor import operator_model
from berth.predictor.graphs.reader import Reader
from berth.predictor.hardware.unit import units

RUNS = 100
GPUS = 10
BATCH = 8
BAR_MS = 3.0


def main() -> None:
    """Print the times."""
    places = list(units({}).values())[:GPUS]
    with tempfile.TemporaryDirectory() as folder, Reader() as reader:
        path = Path(folder) / "resnet50.onnx"
        path.write_bytes(resnet50())
        graph = reader.read(path, batch=BATCH)
    model = operator_model()
    found = [1e3 * s for s in times_s(lambda: model.graph_seconds(graph, places), RUNS)]
    median = statistics.median(found)
    verdict = "met" if median <= BAR_MS else "missed"
    print(
        f"{len(graph)} nodes, {len(graph.kinds)} kinds, {len(places)} GPUs: {median:.2f} ms, "
        f"best {min(found):.2f} ms; bar {BAR_MS} ms: {verdict}"
    )


if __name__ == "__main__":
    main()
