"""Summaries of graphs that the public archive lacks: ``tables/described.npz`` (see its README).

The table has each graph's work by kind of operator and its ``graph_features``, but not its
structure. ``terms`` and ``descriptors`` of any batch and platform are computed from these.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from berth.pilot.errors import BerthError, DocumentError
from berth.predictor.families.graph.latency.features import (
    GRAPH_FEATURES,
    WorkByKind,
    graph_features,
    work_of,
)
from berth.predictor.graphs.reader import ModelReader
from lab.datasets.timm import Architecture
from lab.graphs import PATIENT
from lab.ground.table import Floats

TABLE = Path(__file__).with_name("tables") / "described.npz"
_COLUMNS = tuple(one.name for one in fields(WorkByKind))


@dataclass(frozen=True, slots=True)
class Described:
    """The work and the features of a graph, without its structure."""

    work: WorkByKind
    features: Floats
    """[len(GRAPH_FEATURES)]"""


def read(path: Path = TABLE) -> Mapping[Architecture, Described]:
    """Return all described graphs. Raises DocumentError for a file in another format."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            table = {name: stored[name] for name in stored.files}
        features = table["features"].astype(np.float64)
        ends = np.cumsum(table["kinds"])
        columns = [table[name] for name in _COLUMNS]
        names = [str(name).rsplit("_", 1) for name in table["name"]]
    except (OSError, ValueError, KeyError) as error:
        raise DocumentError(path, f"is not a table of described graphs: {error}") from None
    if features.shape != (len(names), len(GRAPH_FEATURES)) or len(ends) != len(names):
        raise DocumentError(path, "was made with other features", hint="make it again: its README")
    found = {}
    for n, (model, size) in enumerate(names):
        part = slice(ends[n] - table["kinds"][n], ends[n])
        own = [column[part] for column in columns]
        work = WorkByKind(
            own[0].astype(np.int64), *(column.astype(np.float64) for column in own[1:])
        )
        found[Architecture(model, int(size))] = Described(work, features[n])
    return found


def describe(folder: Path) -> tuple[bytes, dict[str, str]]:
    """Return the table (bytes of an npz file) of all ``MODEL_SIZE.onnx`` files in ``folder``.

    Also return the error message of each file that could not be read, by file stem.
    """
    names, features, kinds, refused = [], [], [], {}
    columns: dict[str, list[Floats]] = {name: [] for name in _COLUMNS}
    with ModelReader(PATIENT) as reader:
        for path in sorted(folder.glob("*_*.onnx")):
            try:
                work = work_of(reader.read(path, batch=1))
            except BerthError as error:
                refused[path.stem] = str(error)
                continue
            names.append(path.stem)
            features.append(graph_features(work))
            kinds.append(len(work.group))
            for name, column in columns.items():
                column.append(np.asarray(getattr(work, name)))
    stream = io.BytesIO()
    stored = {name: np.concatenate(column) for name, column in columns.items()}
    np.savez_compressed(
        stream, allow_pickle=False, name=np.array(names), kinds=np.array(kinds, np.int32),
        features=np.array(features, np.float32), group=stored.pop("group").astype(np.uint8),
        **{name: column.astype(np.float32) for name, column in stored.items()},
    )  # fmt: skip
    return stream.getvalue(), refused


def main() -> None:
    """Write the table again: ``python -m lab.latency.described_graphs FOLDER``."""
    data, refused = describe(Path(sys.argv[1]))
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_bytes(data)
    print(f"{TABLE}: {len(data) >> 10} kB; could not be read: {len(refused)}")
    for name, why in refused.items():
        print(f"  {name}: {why}")


if __name__ == "__main__":
    main()
