"""A graph network as a bundle: ONNX, the columns of a run, what it was trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.core.bundle import (
    CARD,
    MANIFEST,
    BundleManifest,
    check_complete,
    open_model,
    read_manifest,
)
from berth.predictor.families.graph.latency.node_features import (
    NODE_FEATURES,
    STATIC_FEATURES,
    CompactGraph,
    compact,
    static_features,
)
from berth.predictor.families.graph.source_errors import SourceError
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.roofs import Numbers

if TYPE_CHECKING:
    import onnxruntime

NETWORK_SCHEMA: Literal["berth.graph-network/2"] = "berth.graph-network/2"
ONNX = "network.onnx"
OUTPUT = "logarithms"
_FILES = (ONNX, CARD)
_DEVICE, _PRECISION = "device ", "precision "
SETTINGS = ("log batch", "log image", "torch", "cuda", "compiled", "channels last")


@dataclass(frozen=True, slots=True)
class RunSetting:
    """How a model is run, in the words of timm's measurements."""

    device: str
    precision: str
    batch: int
    image_size: int = 224
    torch: int = 291
    """Version, as 291 for 2.9.1."""
    cuda: float = 0.0
    """Version times ten; 0 on a CPU."""
    compiled: bool = False
    channels_last: bool = False

    def columns(self, names: Sequence[str]) -> list[float]:
        """One number a name. Raises UsageError for a device or precision that is not there."""
        for kind, given in ((_DEVICE, self.device), (_PRECISION, self.precision)):
            known = [name.removeprefix(kind) for name in names if name.startswith(kind)]
            if given not in known:
                raise UsageError(f"{kind}{given} is not known", hint=f"one of {', '.join(known)}")
        if self.batch < 1 or self.image_size < 1:
            raise UsageError("batch and image size must be at least 1")
        numbers = dict(zip(SETTINGS, (
            math.log(self.batch), math.log(self.image_size), self.torch, self.cuda, self.compiled,
            self.channels_last,
        ), strict=True))  # fmt: skip
        mine = (_DEVICE + self.device, _PRECISION + self.precision)
        return [float(numbers.get(name, name in mine)) for name in names]


class NetworkPlace(Document):
    """A platform that is predicted, in the words of what was measured there."""

    platform: str
    numbers: Numbers
    device: str
    precision: str
    torch: int
    cuda: float
    compiled: bool
    channels_last: bool
    batches: tuple[int, int]
    """Smallest and largest that was measured."""


class NetworkManifest(BundleManifest):
    """``manifest.json``."""

    schema_: Literal["berth.graph-network/2"] = Field(default=NETWORK_SCHEMA, alias="schema")
    targets: tuple[str, ...] = Field(min_length=1)
    node_features: tuple[str, ...]
    static_features: tuple[str, ...]
    columns: tuple[str, ...] = Field(min_length=len(SETTINGS))
    places: tuple[NetworkPlace, ...] = ()
    """What a forecast covers; one for each platform and precision."""
    errors: tuple[SourceError, ...] = ()
    """Of the network, and of all sources with it, on models that neither was trained on. Without
    them it has no part in a forecast."""
    sources: dict[str, str]
    """Data set -> SHA-256."""
    rows: int
    seed: int
    libraries: dict[str, str]


@dataclass(frozen=True, slots=True)
class NetworkBundle:
    """What ``load`` gives."""

    manifest: NetworkManifest
    session: onnxruntime.InferenceSession

    @property
    def id(self) -> str:
        """Of the bundle."""
        return self.manifest.id

    def seconds(self, graph: ModelGraph, settings: Sequence[RunSetting]) -> NDArray[np.float64]:
        """[settings] of one image. ``graph`` is of batch 1; each setting has its own batch.

        Raises UsageError for a graph of another batch, and for an unknown device or precision.
        """
        if graph.batch != 1:
            raise UsageError(f"the graph is of batch {graph.batch}", hint="read it at batch 1")
        columns = np.array([one.columns(self.manifest.columns) for one in settings])
        found = logarithms(self.session, compact(graph), static_features(graph), columns)
        return np.exp(found[:, self.manifest.targets.index("latency")])


def logarithms(
    session: onnxruntime.InferenceSession,
    graph: CompactGraph,
    statics: NDArray[np.floating],
    columns: NDArray[np.floating],
) -> NDArray[np.float64]:
    """[runs, targets] of one graph; ``statics`` [...], ``columns`` [runs, ...]."""
    edges = np.repeat(graph.edges.astype(np.int64), graph.times.astype(np.int64), axis=1)
    given = {
        "features": graph.features, "edges": edges, "count": graph.count,
        "statics": statics.astype(np.float32)[None], "columns": columns.astype(np.float32),
    }  # fmt: skip
    known = {one.name for one in session.get_inputs()}
    found = session.run([OUTPUT], {name: given[name] for name in given if name in known})
    return np.asarray(found[0], np.float64)


def verify(folder: Path) -> NetworkManifest:
    """The manifest, after every checksum has been compared. Raises DocumentError."""
    manifest = read_manifest(folder, NetworkManifest)
    check_complete(folder, manifest, _FILES)
    if manifest.node_features != NODE_FEATURES or manifest.static_features != STATIC_FEATURES:
        raise DocumentError(
            folder / MANIFEST,
            "was made for other features of a graph",
            key="node_features",
            hint="train it again with this version",
        )
    return manifest


def load(folder: Path) -> NetworkBundle:
    """A bundle of ``python -m lab graph-networks --train``. Raises DocumentError."""
    manifest = verify(folder)
    session = open_model(folder / ONNX)
    row = np.ones(1, np.float32)
    alone = np.zeros((2, 0), np.int32)
    one = CompactGraph(np.zeros((1, len(NODE_FEATURES)), np.float32), row, alone, row[:0], 1)
    columns = np.zeros((1, len(manifest.columns)))
    try:
        logarithms(session, one, np.zeros(len(STATIC_FEATURES)), columns)
    except Exception as error:  # onnxruntime raises a dozen classes of its own
        raise DocumentError(folder / ONNX, f"holds no graph network: {error}") from None
    return NetworkBundle(manifest, session)
