"""Writing an xAMM bundle: both downstream models, both embeddings, the saved AMMs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import skl2onnx
import xgboost
from skl2onnx.common.data_types import FloatTensorType

from berth.pilot.errors import BerthError
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.benchmarks import Benchmarks
from berth.predictor.families.relative.xamm import (
    EMBEDDING,
    MACHINE_EMBEDDING,
    WITH_MACHINES,
    WITHOUT_MACHINES,
    XammManifest,
    XammTraining,
    load,
)
from berth.predictor.learning import trees_onnx as convert
from lab.published.relative_networks.export import (
    TOLERANCE,
    apply,
    check_agreement,
    run_onnx,
    to_onnx,
)
from lab.published.xamm.family import FittedXamm
from lab.published.xamm.inputs import joined
from lab.published.xamm.samples import Samples

_LIBRARIES = ("torch", "xgboost-cpu", "scikit-learn", "skl2onnx", "numpy")


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
    """The bundle, whole or not at all. Raises BerthError where ONNX says another thing."""
    embedded = apply(fitted.embedder, samples.features)
    files = {EMBEDDING: _network(fitted.embedder, samples.features)}
    files[WITHOUT_MACHINES] = _trees(fitted.without_machines, embedded)
    told = fitted.machines is not None and fitted.with_machines is not None
    if fitted.machines is not None and benchmarks is not None and told:
        runs = np.vstack([benchmarks.samples[name] for name in benchmarks.complete()])
        files[MACHINE_EMBEDDING] = _network(fitted.machines.embedder, runs)
        sources = [name in fitted.vectors for name in samples.sources]
        names = [n for n, here in zip(samples.sources, sources, strict=True) if here]
        targets = [name for name in samples.targets if name in fitted.vectors]
        files[WITH_MACHINES] = _trees(
            fitted.with_machines, joined(embedded[sources], names, targets, fitted.vectors)
        )
    manifest = XammManifest(
        **made_by(command),
        counters=counters,
        benchmarks=benchmarks.features if benchmarks is not None and told else (),
        machines={n: tuple(map(float, v)) for n, v in fitted.vectors.items()} if told else {},
        trained_machines=tuple(sorted({*samples.sources, *samples.targets})),
        aggregation=fitted.choices.aggregation,
        scale=fitted.choices.scale,
        training=XammTraining(
            rows=len(samples),
            applications=applications,
            seed=seed,
            embedding=fitted.choices.embedding,
            downstream=fitted.choices.downstream,
            libraries=versions(_LIBRARIES),
        ),
    )
    return write_bundle(folder, manifest, files, load)


def _network(network: Any, rows: Floats) -> bytes:
    made = to_onnx(network, rows.shape[1])
    check_agreement(made, network, rows)
    return made


def _trees(model: Any, rows: Floats) -> bytes:
    if isinstance(model, xgboost.XGBRegressor):
        made = convert.to_onnx(model, rows.shape[1])
    else:
        inputs = [("features", FloatTensorType([None, rows.shape[1]]))]
        converted = skl2onnx.convert_sklearn(model, "trees", inputs, target_opset=15)
        made = bytes(converted.SerializeToString())
    # Trees compare in float32: the rows as they are served.
    probe = rows.astype(np.float32).astype(np.float64)
    apart = float(np.abs(run_onnx(made, probe).reshape(-1) - model.predict(probe)).max())
    if not apart <= TOLERANCE:
        raise BerthError(
            f"the converted trees differ from the trained ones by {apart:.3g}; nothing was written"
        )
    return made
