"""One workload's times on 15 devices by the cost model, after load. Bar: 200 us a row.

Trains the family on the AIWC data set, writes the bundle, loads it and asks it for one row and
for all rows at once. Needs the data set (see predictor/datasets) and berth[train].
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from timing.calls import times_s

from berth.pilot.errors import ToolMissing
from berth.predictor.families.relative import bundle
from berth.predictor.families.relative.bundle import RelativeModel
from berth.predictor.families.relative.cost_model import CostModel
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.cost_model_onnx import cost_model_onnx, inputs_of
from berth.predictor.learning.relative.train import train

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.relative.data import aiwc_rows

RUNS = 1000
BAR_US = 200.0


def microseconds(work: Callable[[], object]) -> tuple[float, float]:
    """Least and median wall time of ``work``, after a warm-up."""
    seconds = times_s(work, RUNS)
    return 1e6 * min(seconds), 1e6 * statistics.median(seconds)


def of_graph(model: RelativeModel, rows: Rows) -> tuple[float, float]:
    """Median time of one row through the ONNX graph, and how far it is off on all rows."""
    fitted = model.model
    if not isinstance(fitted, CostModel):
        raise TypeError("the cost model was trained")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        cost_model_onnx(fitted), options, providers=["CPUExecutionProvider"]
    )
    one, asked = rows.knowing().take([0]), rows.knowing()
    (found,) = session.run(None, inputs_of(fitted, asked))
    off = np.where(np.isfinite(asked.log_seconds), 0.0, found - fitted.log_seconds(asked))
    _, median = microseconds(lambda: session.run(None, inputs_of(fitted, one)))
    return median, float(np.abs(off).max())


def main() -> int:
    """Print the table."""
    try:
        rows = aiwc_rows()
    except ToolMissing as error:
        print(error.message)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        path = Path(folder) / "bundle"
        train(rows, path, sources={}, seed=0, command="")
        trained = time.perf_counter() - start
        start = time.perf_counter()
        model = bundle.load(path)
        loaded = 1e3 * (time.perf_counter() - start)
    asked = rows.knowing()
    one = asked.take([0])
    least, median = microseconds(lambda: model.log_seconds(one))
    _, batch = microseconds(lambda: model.log_seconds(asked))
    verdict = "met" if median <= BAR_US else "missed"
    print(f"train, every application left out once  {trained:7.1f} s   bar 600 s")
    print(f"load the bundle                         {loaded:7.1f} ms")
    print(
        f"one row, {len(rows.platforms)} devices: median           {median:7.0f} us  "
        f"bar {BAR_US:.0f} us: {verdict} (least {least:.0f})"
    )
    graph, apart = of_graph(model, rows)
    print(
        f"the same through ONNX: median           {graph:7.0f} us  bar {BAR_US:.0f} us; "
        f"at most {apart:.1g} (log) from the trainer, bar 1e-4"
    )
    print(f"{len(rows)} rows at once, a row                {batch / len(rows):7.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
