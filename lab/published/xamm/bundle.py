"""Writing an xAMM bundle: both downstream models, both embeddings, the saved AMMs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from lab.published.xamm.benchmarks import Benchmarks
from lab.published.xamm.family import LIBRARIES, FittedXamm
from lab.published.xamm.one_graph import network_onnx
from lab.published.xamm.samples import Samples
from lab.published.xamm.two_models import (
    EMBEDDING,
    MACHINE_EMBEDDING,
    WITH_MACHINES,
    WITHOUT_MACHINES,
    XammManifest,
    XammTraining,
    load,
)


def write(
    folder: Path,
    fitted: FittedXamm,
    samples: Samples,
    benchmarks: Benchmarks | None,
    *,
    counters: tuple[str, ...],
    applications: int,
    seed: int,
    command: str,
) -> XammManifest:
    """The bundle, whole or not at all. Raises BerthError where ONNX predicts something else."""
    files = {
        EMBEDDING: network_onnx(fitted.embedder, samples.features),
        WITHOUT_MACHINES: fitted.blind_onnx(samples),
    }
    with_machines = fitted.machines is not None and fitted.with_machines is not None
    if fitted.machines is not None and benchmarks is not None and with_machines:
        runs = np.vstack([benchmarks.samples[name] for name in benchmarks.complete()])
        files[MACHINE_EMBEDDING] = network_onnx(fitted.machines.embedder, runs)
        files[WITH_MACHINES] = fitted.trees_onnx(samples)
    vectors = {name: tuple(map(float, vector)) for name, vector in fitted.vectors.items()}
    manifest = XammManifest(
        **made_by(command),
        counters=counters,
        benchmarks=benchmarks.features if benchmarks is not None and with_machines else (),
        machines=vectors if with_machines else {},
        trained_machines=tuple(sorted({*samples.sources, *samples.targets})),
        aggregation=fitted.choices.aggregation,
        scale=fitted.choices.scale,
        training=XammTraining(
            rows=len(samples),
            applications=applications,
            seed=seed,
            embedding=fitted.choices.embedding,
            downstream=fitted.choices.downstream,
            libraries=versions(LIBRARIES),
        ),
    )
    return write_bundle(folder, manifest, files, load)
