"""The summing GraphSAGE network as a bundle: ONNX, proved to predict what PyTorch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.graph.latency import graph_network_bundle as bundles
from berth.predictor.families.graph.latency.graph_network_bundle import (
    NETWORK_SCHEMA,
    ONNX,
    OUTPUT,
    NetworkManifest,
    NetworkPlace,
)
from berth.predictor.families.graph.latency.node_features import NODE_FEATURES, STATIC_FEATURES
from berth.predictor.families.graph.source_errors import SourceError
from berth.predictor.learning.onnx_export import agreement
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.ground.model_card import (
    library_line,
    markdown_table,
    model_card,
    source_lines,
)
from lab.ground.onnx_networks import network_onnx
from lab.latency.latency_bundle import usual_settings
from lab.latency.samples import settings
from lab.latency.timm_devices import NUMBERS, platform_of
from lab.latency.timm_runs import Runs
from lab.published.graph_networks.fit_network import Training, fit
from lab.published.graph_networks.latency_network import TARGETS, Network, Readout, Shape
from lab.published.graph_networks.timm_examples import COLUMNS, examples

SHAPE = Shape(readout=Readout.SUM)
TOLERANCE = 1e-4
_SETTING = ("device", "precision", "layout")
_CHECKED_EACH = 20
"""Of so many graphs one is asked of PyTorch and of ONNX."""
_LIBRARIES = ("numpy", "onnx", "onnxruntime", "torch", "torch-geometric")
_OPEN = {
    "features": {0: "rows"}, "edges": {1: "edges"}, "count": {0: "rows"}, "statics": {},
    "columns": {0: "runs"}, OUTPUT: {0: "runs"},
}  # fmt: skip


class _OneGraph(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.network.one_graph(*inputs)


def to_onnx(network: Network) -> bytes:
    """A graph's tensors (any number of rows, edges and runs) -> [runs, targets] logarithms."""
    example = (
        torch.zeros(3, len(network.nodes.mean)), torch.tensor([[0, 1], [1, 2]]), torch.ones(3),
        torch.zeros(1, len(network.statics.mean)), torch.zeros(2, len(network.columns.mean)),
    )  # fmt: skip
    return network_onnx(_OneGraph(network), example, _OPEN, OUTPUT)


def onnx_inputs(one: Data) -> dict[str, NDArray[np.float32]]:
    """What the ONNX file is asked with, of a graph with its runs."""
    return {
        "features": one.x.numpy(), "edges": one.edge_index.numpy(), "count": one.count.numpy(),
        "statics": one.statics.numpy(), "columns": one.columns.numpy(),
    }  # fmt: skip


def check_agreement(raw: bytes, network: Network, data: Data) -> float:
    """Largest difference of ONNX from PyTorch. Raises BerthError above ``TOLERANCE``."""
    inputs = onnx_inputs(data)
    with torch.no_grad():
        own = network.eval().one_graph(*(torch.from_numpy(x) for x in inputs.values())).numpy()
    return agreement(raw, inputs, own, TOLERANCE)


def places(rows: Runs) -> tuple[NetworkPlace, ...]:
    """The usual setting of each platform and precision, as of the learnt times."""
    of_row = settings(rows)
    found = []
    for name in sorted(usual_settings(sorted(set(of_row.tolist())))):
        mine = rows[of_row == name]
        if len(mine):
            device, precision, layout = (str(getattr(mine, key)[0]) for key in _SETTING)
            found.append(NetworkPlace(
                platform=platform_of(device), numbers=NUMBERS[precision], device=device,
                precision=precision, torch=int(mine.torch[0]), cuda=float(np.median(mine.cuda)),
                compiled=bool(mine.compiled[0]), channels_last=layout == "nhwc",
                batches=(int(mine.batch.min()), int(mine.batch.max())),
            ))  # fmt: skip
    return tuple(found)


def train(
    folder: Path,
    rows: Runs,
    *,
    command: str,
    seed: int = 0,
    figures: Mapping[str, float] | None = None,
    errors: Sequence[SourceError] = (),
    training: Training | None = None,
    advance: Callable[..., None] = lambda *_: None,
) -> NetworkManifest:
    """A bundle learnt from ``rows`` that have a graph; ``advance`` is called once an epoch.

    ``errors``: of held-out models (``network_errors``); without them no forecast uses it.

    Same rows and seed, same id. Raises BerthError where the exported network is not the trained.
    """
    rows = rows[rows.has_graph]
    data = examples(rows)
    network, _ = fit(data, SHAPE, training or Training(), seed=seed, advance=advance)
    onnx = to_onnx(network)
    apart = max(check_agreement(onnx, network, one) for one in data[::_CHECKED_EACH])
    manifest = NetworkManifest(
        schema=NETWORK_SCHEMA, **made_by(command, figures), targets=TARGETS[:1],
        node_features=NODE_FEATURES, static_features=STATIC_FEATURES, columns=COLUMNS,
        places=places(rows), errors=tuple(errors),
        sources={one.path: one.sha256 for one in (BENCHMARK, GRAPHS)}, rows=len(rows), seed=seed,
        libraries=versions(_LIBRARIES),
    )  # fmt: skip
    card = model_card(
        "graph network of model latency", manifest,
        {
            "What it is": [
                "GraphSAGE over model graphs; a model's time is the sum of its nodes'",
                "(docs/model-networks.md). Targets: logarithm of seconds an image. ONNX differs",
                f"from PyTorch by at most {apart:.1e}. It knows the devices below alone; nothing",
                "was measured of memory or energy there. In a forecast it is one source beside",
                "the measured models, weighed by the errors below.",
            ],
            "Errors on models that it was not trained on": [
                "Half width of the 90 % interval in log time (of all sources together: a factor on",
                "theirs), and how many groups of held-out models it covers.", "",
                *markdown_table(
                    ("situation", "source", "half width", "covered", "groups"),
                    [(e.situation, e.source, f"{e.log_width:.3f}", f"{e.coverage:.0%}",
                      str(e.groups)) for e in manifest.errors],
                ),
            ],
            "Data": [
                *source_lines(manifest.sources),
                f"- {manifest.rows} measurements of {len(set(rows.model.tolist()))} timm models on",
                f"  {', '.join(sorted(set(rows.device.tolist())))}",
                library_line(seed, manifest.libraries),
            ],
        },
        command="python -m lab graph-networks",
    )  # fmt: skip
    return write_bundle(folder, manifest, {ONNX: onnx, CARD: card.encode()}, load=bundles.load)
