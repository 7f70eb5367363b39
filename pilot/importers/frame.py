"""Read Hatchet GraphFrames and Thicket tables (JSON, CSV, Parquet), and HPCToolkit databases.

The libraries' own JSON (``gf.to_json()``, ``thicket.to_json()``) is best, because it includes the
call tree and the metadata. CSV and Parquet of ``gf.dataframe.reset_index()`` lack the tree: each
row is a region, named by its ``name`` column. Pickles and HDF5 (which holds pickles) are refused,
because reading them can run any code.

HPCToolkit databases (folders) are read by Hatchet, in this process, where Hatchet is installed (the
extra ``import``).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, ToolMissing
from berth.pilot.importers.caliper import json_of
from berth.pilot.importers.reading import (
    DATABASE,
    MAX_DEPTH,
    MAX_RECORDS,
    PROFILE,
    CallTree,
    ImportedFile,
    TreeRow,
    fault,
)
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.importers.tree import tree_runs

NODE_COLUMNS = ("name", "node")


def read_json(source: ImportedFile) -> list[CallTree]:
    """Return one CallTree for each profile of a frame saved as JSON.

    Raises DocumentError that names the faulty key.
    """
    return _trees(source, json_of(source))


def _trees(source: ImportedFile, data: Any) -> list[CallTree]:
    if not isinstance(data, dict):
        raise DocumentError(source.path, "is not what to_json() of a frame writes")
    paths = _paths(source, data.get("graph"))
    rows = data.get("dataframe")
    if not isinstance(rows, list) or len(rows) > MAX_RECORDS:
        raise _wrong(source, "dataframe", f"is not a list of at most {MAX_RECORDS} rows")
    tables: dict[str, list[TreeRow]] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise _wrong(source, f"dataframe[{index}]", "is not an object")
        path = paths.get(str(row.get("node")))
        if path is None:
            raise _wrong(
                source, f"dataframe[{index}].node", f"is {row.get('node')!r}, not in the graph"
            )
        record = _record(path, row, index, skip=("node", "name"))
        tables.setdefault(str(row.get("profile", "")), []).append(record)
    return [
        CallTree(records=records, facts=_metadata(data, profile))
        for profile, records in tables.items()
    ]


def read_csv(source: ImportedFile) -> list[CallTree]:
    """Return a frame saved as CSV as a CallTree. Raises DocumentError that names a bad line."""
    reader = csv.DictReader(io.StringIO(source.text, newline=""))
    rows: list[Mapping[str, Any]] = []
    try:
        for row in reader:
            if None in row:
                raise fault(source.path, reader.line_num, "has more fields than the header")
            rows.append(row)
            if len(rows) > MAX_RECORDS:
                raise fault(source.path, reader.line_num, f"is beyond {MAX_RECORDS} rows")
    except csv.Error as error:
        raise fault(source.path, reader.line_num, f"is not CSV: {error}") from None
    return [_flat(source, rows, reader.fieldnames or ())]


def read_parquet(source: ImportedFile) -> list[CallTree]:
    """Return a frame saved as Parquet as one CallTree.

    Raises ToolMissing without pyarrow, DocumentError for an unreadable file.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - of the `train` extra; the pilot works without it
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise ToolMissing(
            "pyarrow", needed_for="reading Parquet", hint="install it, or save the frame as CSV"
        ) from None
    try:
        file = parquet.ParquetFile(io.BytesIO(source.raw))
        if file.metadata.num_rows > MAX_RECORDS:
            raise DocumentError(source.path, f"holds more than {MAX_RECORDS} rows")
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DocumentError(source.path, f"is not Parquet: {reason}") from None
    return [_flat(source, table.to_pylist(), table.column_names)]


def _flat(source: ImportedFile, rows: list[Mapping[str, Any]], columns: Iterable[str]) -> CallTree:
    known = set(columns)
    named = next((column for column in NODE_COLUMNS if column in known), None)
    if named is None:
        raise DocumentError(
            source.path,
            "has no 'name' column to tell the regions by",
            hint="save gf.dataframe.reset_index(), or better gf.to_json()",
        )
    ids = {(str(row.get(named)), str(row.get("nid"))) for row in rows}
    repeated = {name for name, count in Counter(name for name, _ in ids).items() if count > 1}
    records = []
    for index, row in enumerate(rows):
        name = str(row.get(named))
        label = f"{name}@{row.get('nid')}" if name in repeated else name
        records.append(_record((label,), row, index, skip=NODE_COLUMNS))
    return CallTree(records=records)


def _record(
    path: tuple[str, ...], row: Mapping[str, Any], index: int, skip: tuple[str, ...]
) -> TreeRow:
    record = TreeRow(path, {}, {}, index)
    for name, value in row.items():
        # In a dataframe nan stands where a region has no such value.
        if name in skip or not isinstance(value, str | int | float) or str(value) == "nan":
            continue
        record.put(name, value)
    return record


def _metadata(data: dict[str, Any], profile: str) -> dict[str, str]:
    rows = data.get("metadata")
    if not isinstance(rows, list):
        return {}
    for row in rows:
        if isinstance(row, dict) and str(row.get("profile", "")) == profile:
            return {key: str(value) for key, value in row.items() if key != "profile"}
    return {}


def _paths(source: ImportedFile, graph: Any) -> dict[str, tuple[str, ...]]:
    """Return the path of each node of the call tree by the node's ID.

    A node with several parents gets the path through one of them.
    """
    if not isinstance(graph, list) or not all(isinstance(tree, dict) for tree in graph):
        raise _wrong(source, "graph", "is not a list of trees")
    nodes = {str(key): node for tree in graph for key, node in tree.items()}
    children = {str(c) for node in nodes.values() for c in _children(source, node)}
    paths: dict[str, tuple[str, ...]] = {}
    stack: list[tuple[str, tuple[str, ...]]] = [(k, ()) for k in nodes if k not in children]
    while stack:
        key, above = stack.pop()
        if key in paths:
            continue
        if key not in nodes:
            raise _wrong(source, f"graph.{key}", "is a child that the graph does not hold")
        if len(above) >= MAX_DEPTH:
            raise _wrong(source, f"graph.{key}", f"is nested deeper than {MAX_DEPTH} levels")
        data = nodes[key].get("data")
        name = data.get("name") if isinstance(data, dict) else None
        paths[key] = (*above, str(name if name is not None else key))
        stack.extend((str(child), paths[key]) for child in _children(source, nodes[key]))
    return paths


def _children(source: ImportedFile, node: Any) -> list[Any]:
    children = node.get("children") if isinstance(node, dict) else None
    if not isinstance(children, list):
        raise _wrong(source, "graph", "holds a node without a list of children")
    return children


def _wrong(source: ImportedFile, key: str, problem: str) -> DocumentError:
    return DocumentError(source.path, problem, key=key)


TIME_METRIC = re.compile(
    rb"(?:CPUTIME|WALLCLOCK|REALTIME|cycles|gpuop)[^\"]{0,40}\((usec|us|sec|s)\)"
)
HEAD_BYTES = 1 << 20


def read_folder(source: ImportedFile) -> list[CallTree]:
    """Return the call trees of an HPCToolkit database.

    Raises ToolMissing without Hatchet, DocumentError where Hatchet cannot read the folder.
    """
    folder = source.path
    if not any((folder / name).is_file() for name in DATABASE):
        raise DocumentError(
            folder, "is no HPCToolkit database: a folder with experiment.xml or meta.db"
        )
    try:
        import hatchet  # noqa: PLC0415 - optional, heavy
    except ImportError:
        raise ToolMissing(
            "hatchet",
            needed_for="reading an HPCToolkit database",
            hint="pip install 'berth[import]' (in an environment without berth[train])",
        ) from None
    try:
        frame = hatchet.GraphFrame.from_hpctoolkit(str(folder))
    except Exception as error:
        raise DocumentError(
            folder, f"Hatchet cannot read it: {type(error).__name__}: {error}"
        ) from None
    unit = _unit(folder)
    return [
        CallTree(t.records, t.facts, {"time": unit, "time (inc)": unit} if unit else {})
        for t in from_graphframe(frame, str(folder))
    ]


def from_graphframe(frame: Any, name: str = "GraphFrame") -> list[CallTree]:
    """Return the call trees of a ``hatchet.GraphFrame`` or ``thicket.Thicket`` object."""
    text = frame.to_json()
    return _trees(ImportedFile(Path(name), b"", ""), json.loads(text))


def _unit(folder: Path) -> str:
    """Return the unit of time in the names of an HPCToolkit database's metrics; empty if none."""
    for file in ("experiment.xml", "metrics/default.yaml"):
        try:
            with (folder / file).open("rb") as stream:
                match = TIME_METRIC.search(stream.read(HEAD_BYTES))
        except OSError:
            continue
        if match:
            return match.group(1).decode()
    return ""


READERS = (
    FileReader("frame-json", PROFILE, (
        FileKind("a Hatchet GraphFrame or Thicket", "frame", late=True, json=(r'"graph"\s*:',)),
    ), tree_runs(read_json, "hatchet")),
    FileReader("frame-csv", PROFILE, (
        FileKind("a Hatchet dataframe as CSV", "frame", late=True, columns=("node",)),
        FileKind("a Hatchet dataframe as CSV", "frame", late=True, columns=("name",)),
    ), tree_runs(read_csv, "hatchet")),
    FileReader("frame-parquet", PROFILE, (
        FileKind("a Parquet file", "parquet", starts=("PAR1",)),
    ), tree_runs(read_parquet, "hatchet")),
    FileReader("hpctoolkit", PROFILE, (
        FileKind("HPCToolkit's database", "hpctoolkit", holds=DATABASE),
    ), tree_runs(read_folder, "hpctoolkit")),
)  # fmt: skip
