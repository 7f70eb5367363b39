"""Caliper's two JSON formats.

``json-split``: an object with ``data`` (rows), ``columns``, ``column_metadata`` and ``nodes``
(labels with a column and a parent); every other key is run metadata. ``json``: a list of records,
hierarchies written ``a/b/c``. Source: Caliper's OutputFormats documentation.
"""

from __future__ import annotations

from typing import Any

from berth.pilot.errors import DocumentError
from berth.pilot.importers.reading import MAX_DEPTH, MAX_RECORDS, Source
from berth.pilot.importers.records import Record, Table, number

REGION_COLUMNS = ("path", "region", "function", "annotation", "source.function#callpath.address")
"""Columns that name the region, best first."""


def read_split(source: Source, data: dict[str, Any]) -> list[Table]:
    """One Table from json-split. Raises DocumentError naming the key at fault."""
    columns = _strings(source, data, "columns")
    metadata = data.get("column_metadata")
    if not isinstance(metadata, list) or len(metadata) != len(columns):
        raise _wrong(source, "column_metadata", "is not one object for each column")
    paths = _paths(source, data)
    region = next((c for c in REGION_COLUMNS if c in columns), None)
    rows = data.get("data")
    if not isinstance(rows, list) or len(rows) > MAX_RECORDS:
        raise _wrong(source, "data", f"is not a list of at most {MAX_RECORDS} rows")
    records = []
    for index, row in enumerate(rows):
        key = f"data[{index}]"
        if not isinstance(row, list) or len(row) != len(columns):
            raise _wrong(source, key, f"is not a row of {len(columns)} values")
        record = Record((), {}, {}, index)
        for name, about, value in zip(columns, metadata, row, strict=True):
            reference = not (isinstance(about, dict) and about.get("is_value", True))
            if value is None:
                continue
            if reference:
                if type(value) is not int or not 0 <= value < len(paths):
                    raise _wrong(source, f"{key}.{name}", f"is {value!r}, not a node's number")
                if name == region:
                    record = Record(paths[value], record.numbers, record.labels, index)
                else:
                    record.labels[name] = paths[value][-1]
            else:
                _put(record, name, value, source, key)
        records.append(record)
    facts = {
        name: str(value)
        for name, value in data.items()
        if name not in ("data", "columns", "column_metadata", "nodes")
    }
    about = {c: m for c, m in zip(columns, metadata, strict=True) if isinstance(m, dict)}
    return [
        Table(
            records=records,
            facts=facts,
            units={c: str(m["attribute.unit"]) for c, m in about.items() if "attribute.unit" in m},
            aliases={
                c: str(m["attribute.alias"]) for c, m in about.items() if "attribute.alias" in m
            },
        )
    ]


def read_plain(source: Source, data: list[Any]) -> list[Table]:
    """One Table from a list of records. Raises DocumentError naming the record at fault."""
    if len(data) > MAX_RECORDS:
        raise DocumentError(source.path, f"holds more than {MAX_RECORDS} records")
    records = []
    for index, entry in enumerate(data):
        if not isinstance(entry, dict):
            raise _wrong(source, f"[{index}]", "is not a record of Caliper (an object)")
        region = next((c for c in REGION_COLUMNS if isinstance(entry.get(c), str)), None)
        path = tuple(part for part in entry[region].split("/") if part) if region else ()
        if len(path) > MAX_DEPTH:
            raise _wrong(source, f"[{index}].{region}", f"is deeper than {MAX_DEPTH} levels")
        record = Record(path, {}, {}, index)
        for name, value in entry.items():
            if name != region and value is not None:
                _put(record, name, value, source, f"[{index}]")
        records.append(record)
    return [Table(records=records)]


def _put(record: Record, name: str, value: Any, source: Source, key: str) -> None:
    if isinstance(value, str | int | float):
        found = number(value)
        if found is None:
            record.labels[name] = str(value)
        else:
            record.numbers[name] = found
    else:
        raise _wrong(source, f"{key}.{name}", "is neither a number nor a string")


def _paths(source: Source, data: dict[str, Any]) -> list[tuple[str, ...]]:
    nodes = data.get("nodes")
    if not isinstance(nodes, list) or len(nodes) > MAX_RECORDS:
        raise _wrong(source, "nodes", f"is not a list of at most {MAX_RECORDS} nodes")
    paths: list[tuple[str, ...]] = []
    for index, node in enumerate(nodes):
        key = f"nodes[{index}]"
        if not isinstance(node, dict) or not isinstance(node.get("label"), str):
            raise _wrong(source, key, "has no label")
        parent = node.get("parent")
        above: tuple[str, ...] = ()
        if parent is not None:
            if type(parent) is not int or not 0 <= parent < index:
                raise _wrong(
                    source, f"{key}.parent", f"is {parent!r}, not the number of a node above"
                )
            above = paths[parent]
        if len(above) >= MAX_DEPTH:
            raise _wrong(source, key, f"is nested deeper than {MAX_DEPTH} levels")
        paths.append((*above, node["label"]))
    return paths


def _strings(source: Source, data: dict[str, Any], key: str) -> list[str]:
    found = data.get(key)
    if not isinstance(found, list) or not all(isinstance(c, str) for c in found):
        raise _wrong(source, key, "is not a list of names")
    if len(set(found)) != len(found):
        raise _wrong(source, key, "names a column twice")
    return found


def _wrong(source: Source, key: str, problem: str) -> DocumentError:
    return DocumentError(source.path, problem, key=key)
