"""A tiny table of model latencies with its graphs, for tests of what learns from them."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from small_models import attention, convolutional, graph_of

from berth.predictor.families.graph.latency.features import graph_features, work_of
from lab.datasets.timm import Architecture
from lab.latency.timm_runs import Graphs, Runs


@cache
def graphs() -> Graphs:
    """Eight convolutional nets and six transformers."""
    made = [
        *(
            (f"conv{blocks}x{width}", graph_of(convolutional(blocks, width), 1))
            for blocks, width in product((1, 2, 3, 4), (8, 16))
        ),
        *(
            (f"vit{layers}x{width}", graph_of(attention(layers, width), 1, {"sequence": 7}))
            for layers, width in product((1, 2, 3), (16, 32))
        ),
    ]
    work = tuple(work_of(graph) for _, graph in made)
    return Graphs(
        tuple(Architecture(name, 8) for name, _ in made),
        tuple(graph for _, graph in made),
        work,
        np.array([graph_features(one) for one in work]),
    )


def runs(devices: tuple[str, ...] = ("3090", "5090"), batches: tuple[int, ...] = (1, 8)) -> Runs:
    """Every graph on every device at every batch; a time that its work and the device make."""
    known = graphs()
    rows = list(product(range(len(known.graphs)), devices, batches))
    place = np.array([graph for graph, _, _ in rows])
    device = np.array([name for _, name, _ in rows])
    batch = np.array([count for _, _, count in rows])
    macs = np.array([graph.total_macs for graph in known.graphs], float)[place]
    many = len(rows)
    names = np.array([one.model for one in known.architectures])[place]
    slower = np.array([1.0 + devices.index(name) for name in device])
    return Runs(
        model=names,
        architecture=names,
        family=np.array([name[:4].rstrip("0123456789x") for name in names]),
        image_size=np.full(many, 8),
        device=device,
        precision=np.full(many, "fp32"),
        layout=np.full(many, "nchw"),
        torch=np.full(many, 291),
        cuda=np.full(many, 130.0),
        compiled=np.zeros(many, bool),
        training=np.zeros(many, bool),
        batch=batch,
        seconds=slower * (1e-5 + macs * 1e-9 + 2e-5 / batch),
        graph=place,
    )
