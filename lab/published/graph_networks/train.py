"""``python -m lab graph-networks --train``: the summing GraphSAGE network on all of timm's rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime

from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.graph.latency import graph_network_bundle as bundles
from berth.predictor.families.graph.latency.graph_network_bundle import (
    NETWORK_SCHEMA,
    ONNX,
    WEIGHTS,
    NetworkManifest,
)
from berth.predictor.families.graph.latency.node_features import NODE_FEATURES, STATIC_FEATURES
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.latency.timm_runs import Runs
from lab.published.graph_networks.examples import COLUMNS, examples
from lab.published.graph_networks.export import check_agreement, to_arrays, to_onnx
from lab.published.graph_networks.fit import Training, fit
from lab.published.graph_networks.network import TARGETS, Readout, Shape

SHAPE = Shape(readout=Readout.SUM)
_CHECKED_EACH = 20
"""Of so many graphs one is asked of all three forms of the network."""
_LIBRARIES = ("numpy", "onnx", "onnxruntime", "torch")


def train(
    folder: Path,
    rows: Runs,
    *,
    command: str,
    seed: int = 0,
    figures: Mapping[str, float] | None = None,
    training: Training | None = None,
    advance: Callable[[], None] = lambda: None,
) -> NetworkManifest:
    """A bundle learnt from ``rows`` that have a graph; ``advance`` is called once an epoch.

    Same rows and seed, same id. Raises BerthError where the exported network is not the trained.
    """
    rows = rows[rows.has_graph]
    ready = examples(rows)
    made = fit(ready, SHAPE, training or Training(), seed=seed, advance=advance)
    onnx, stream = to_onnx(made), io.BytesIO()
    np.savez(stream, **to_arrays(made))  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    apart = 0.0
    for graph in np.unique(rows.graph)[::_CHECKED_EACH].tolist():
        some = ready.only(np.flatnonzero(rows.graph == graph))
        apart = max(apart, check_agreement(
            made, session, ready.graphs[graph], ready.statics[graph], some.columns
        ))  # fmt: skip
    manifest = NetworkManifest(
        schema=NETWORK_SCHEMA,
        **made_by(command, figures),
        targets=TARGETS[:1],
        node_features=NODE_FEATURES,
        static_features=STATIC_FEATURES,
        columns=COLUMNS,
        sources={one.path: one.sha256 for one in (BENCHMARK, GRAPHS)},
        rows=len(rows),
        seed=seed,
        libraries=versions(_LIBRARIES),
    )
    files = {
        WEIGHTS: stream.getvalue(), ONNX: onnx, CARD: _card(manifest, rows, apart).encode(),
    }  # fmt: skip
    return write_bundle(folder, manifest, files, load=bundles.load)


def _card(manifest: NetworkManifest, rows: Runs, apart: float) -> str:
    devices = ", ".join(sorted(set(rows.device.tolist())))
    figures = "\n".join(f"- {name}: {value:.4g}" for name, value in manifest.figures.items())
    return f"""# Graph network of model latency

GraphSAGE over model graphs; a model's time is the sum of its nodes' (docs/model-networks.md).

- trained on {manifest.rows} measurements of {len(set(rows.model.tolist()))} timm models
  on {devices}; seed {manifest.seed}
- targets: {", ".join(manifest.targets)} (logarithm of seconds an image)
- ONNX and numpy differ from PyTorch by at most {apart:.1e}
- knows these devices alone; no interval; nothing was measured of memory or energy there

{figures or "Figures: `python -m lab graph-networks`."}
"""
