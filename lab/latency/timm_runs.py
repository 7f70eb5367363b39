"""The measured speeds of timm's models and their graphs, as one table.

A row is one published measurement. Its graph is the exported graph of the same model and image
size; rows without a graph have ``graph == NO_GRAPH``. Seconds are per image (step time / batch).
The split "unseen model" holds out architectures, not names (see ``model_names``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import (
    ROOF_FEATURES,
    GraphWork,
    WorkByKind,
    graph_features,
    roof_features,
    work_of,
)
from berth.predictor.graphs.graph import ModelGraph
from lab.datasets import timm
from lab.ground.splits import Split
from lab.ground.table import Flags, Floats, Places, Strings, Table
from lab.latency.model_names import architectures, family_of
from lab.latency.timm_devices import DEVICES, NUMBERS, roof_of_device

NO_GRAPH = -1


@dataclass(frozen=True)
class Runs(Table):
    """Measurements; one entry per row in each column."""

    model: Strings
    architecture: Strings
    """First name, sorted, of those that stand for the same network."""
    family: Strings
    image_size: Places
    device: Strings
    precision: Strings
    """``fp32``, ``amp`` (half precision where safe), ``amp_bf16``, ``bf16``."""
    layout: Strings
    torch: Places
    """Version without dots, such as 113 for 1.13 and 291 for 2.9.1."""
    cuda: Floats
    """Version times ten; 0 on CPUs."""
    compiled: Flags
    training: Flags
    batch: Places
    seconds: Floats
    """Measured seconds per image."""
    graph: Places
    """Index of the graph in ``Graphs``, or NO_GRAPH."""

    @property
    def has_graph(self) -> Flags:
        """Return a mask of the rows with a graph."""
        return np.asarray(self.graph != NO_GRAPH)


MODEL, FAMILY = Split("unseen model", "architecture"), Split("unseen family", "family")
"""All rows of an architecture (or a family) are held out together, on all devices."""


@dataclass(frozen=True)
class Graphs:
    """The graphs at batch 1; ``Runs.graph`` is an index into each field."""

    architectures: tuple[timm.Architecture, ...]
    graphs: tuple[ModelGraph, ...]
    work: tuple[GraphWork, ...]
    features: Floats
    """[graphs, len(GRAPH_FEATURES)]"""

    @property
    def places(self) -> dict[str, int]:
        """Return the index of each graph by its name ``MODEL_SIZE``."""
        return {f"{a.model}_{a.image_size}": n for n, a in enumerate(self.architectures)}


@cache
def graphs() -> Graphs:
    """Return all graphs, read once per process (5 s). Raises ToolMissing, DocumentError."""
    read = sorted(timm.graphs(batch=1), key=lambda found: found[0])
    work = tuple(work_of(graph) for _, graph in read)
    return Graphs(
        tuple(architecture for architecture, _ in read), tuple(graph for _, graph in read), work,
        np.array([graph_features(one) for one in work]),
    )  # fmt: skip


@cache
def runs(*, training: bool = False) -> Runs:
    """Return all measurements of inference (or of training). Raises ToolMissing, DocumentError.

    Rows without a batch or a time are left out (two of 20,220).
    """
    frame = timm.frame().dropna(subset=["batch_size", "step_time"])
    frame = frame[(frame["mode"] == "train") == training].reset_index(drop=True)
    place, same = graphs().places, architectures()
    model, size = [str(name) for name in frame.model], frame.img_size.tolist()

    def text(name: str) -> Strings:
        return np.array([str(value) for value in frame[name]])

    return Runs(
        model=np.array(model),
        architecture=np.array([same[name] for name in model]),
        family=np.array([family_of(name) for name in model]),
        image_size=frame.img_size.to_numpy(np.int64),
        device=text("device"), precision=text("precision"), layout=text("layout"),
        torch=frame.torch.to_numpy(np.int64),
        cuda=frame.cuda.fillna(0).to_numpy(np.float64),
        compiled=frame.compiled.to_numpy(bool),
        training=(frame["mode"] == "train").to_numpy(bool),
        batch=frame.batch_size.to_numpy(np.int64),
        seconds=(frame.step_time / 1e3 / frame.batch_size).to_numpy(np.float64),
        graph=np.array([
            place.get(f"{name}_{int(s)}", NO_GRAPH) for name, s in zip(model, size, strict=True)
        ], np.int64),
    )  # fmt: skip


def roof_rows(rows: Runs, work: Sequence[WorkByKind | GraphWork]) -> Floats:
    """Return [rows, len(ROOF_FEATURES)]: seconds per image of each row's work by the device's
    roofline limits.

    Rows with the same work, device, precision and batch are computed once.
    """
    keys = list(zip(
        map(id, work), rows.device.tolist(), rows.precision.tolist(), rows.batch.tolist(),
        strict=True,
    ))  # fmt: skip
    known = {
        key: roof_features(one, [roof_of_device(key[1])], [NUMBERS[key[2]]], key[3])[0]
        for key, one in dict(zip(keys, work, strict=True)).items()
    }
    return np.array([known[key] for key in keys]).reshape(-1, len(ROOF_FEATURES))


def scalars(rows: Runs) -> Floats:
    """Return the features [rows, ...] that need no graph.

    They are logarithms of the image size and of the batch; then device, precision, layout and
    versions of the software.
    """
    columns = [
        np.log(rows.image_size), np.log(rows.batch), rows.torch, rows.cuda, rows.compiled,
        rows.layout == "nhwc", *(rows.device == device for device in DEVICES),
        *(rows.precision == name for name in ("fp32", "amp", "amp_bf16", "bf16")),
    ]  # fmt: skip
    return np.column_stack([np.asarray(column, np.float64) for column in columns])
