"""Our own measurements (``training/graphs/data``) as what a graph network learns from.

They alone know memory: the host's peak while running, less what the process held before the model.
Nobody measured energy yet: that head stays untrained until a site's runs have it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.pilot.dl.document import ModelRun, Task
from berth.predictor.learning.graphs.run_seconds import seconds
from lab.graphs.model_runs import runs
from lab.ground.table import Strings
from lab.latency.timm_runs import Runs, graphs
from lab.published.graph_networks.examples import columns, compacted
from lab.published.graph_networks.fit import Examples
from lab.published.graph_networks.network import TARGETS

ONNXRUNTIME = "onnxruntime"


def inference_runs() -> list[ModelRun]:
    """onnxruntime's, of timm's graphs. Raises ToolMissing where the graphs are absent."""
    known = _places()
    return [
        run for run in runs()
        if run.setting.task is Task.INFERENCE and run.setting.framework == ONNXRUNTIME
        and run.model.name in known and seconds(run) is not None
    ]  # fmt: skip


def measured(of: Sequence[ModelRun]) -> tuple[Examples, Strings]:
    """The runs with all three labels where they are known, and [runs] the models' names."""
    compacts, statics = compacted()
    known = _places()
    graph = np.array([known[run.model.name] for run in of], np.int64)
    labels = np.array([_labels(run) for run in of], np.float64).reshape(len(of), len(TARGETS))
    names = np.array([run.model.name for run in of])
    return Examples(compacts, statics, graph, columns(_as_rows(of, graph)), labels), names


def _labels(run: ModelRun) -> tuple[float, float, float]:
    took, batch = seconds(run), run.setting.batch
    before, peak, joules = (
        _value(run, name) for name in ("host_before_bytes", "host_run_peak_bytes", "energy_j")
    )
    return (
        np.log(took / batch) if took else np.nan,
        np.log(peak - before) if peak > before else np.nan,
        np.log(joules / batch) if joules > 0 else np.nan,
    )


def _value(run: ModelRun, name: str) -> float:
    found = run.measurements.get(name)
    return np.nan if found is None or found.value is None else float(found.value)


def _places() -> dict[str, int]:
    return {f"{a.model}_{a.image_size}": n for n, a in enumerate(graphs().architectures)}


def _as_rows(of: Sequence[ModelRun], graph: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Runs:
    """In timm's words: a device that is none of timm's, fp32, no CUDA."""
    many = len(of)
    unknown = np.full(many, np.nan)
    names = np.array([run.model.name for run in of])
    return Runs(
        model=names, architecture=names, family=names,
        image_size=np.array([graphs().architectures[n].image_size for n in graph.tolist()]),
        device=np.array([run.platform for run in of]), precision=np.full(many, "fp32"),
        layout=np.full(many, "nchw"), torch=np.full(many, 291), cuda=np.zeros(many),
        compiled=np.zeros(many, bool), training=np.zeros(many, bool),
        batch=np.array([run.setting.batch for run in of]), seconds=np.ones(many),
        parameters=unknown, gmacs=unknown, macts=unknown, graph=graph,
    )  # fmt: skip
