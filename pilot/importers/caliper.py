"""Read Caliper's native ``.cali`` text files and its two JSON formats.

A ``.cali`` file has a tree of nodes and records that refer to the tree. Each line is
``__rec=KIND,key=value=value,...`` with backslash escapes. Kinds are ``node`` (a tree node: ID,
attribute, data, parent), ``ctx`` (a snapshot record: references to nodes, and attribute/value
pairs) and ``globals``. Attributes are nodes, too, whose types are twelve nodes that every file
implies.

``json-split`` is an object with ``data`` (rows), ``columns``, ``column_metadata`` and ``nodes``
(labels with a column and a parent); every other key is run metadata. ``json`` is a list of records
whose hierarchies are written ``a/b/c``. Source: Caliper's OutputFormats documentation and the
reader in its ``python/caliper-reader``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.pilot.importers.reading import (
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
from berth.pilot.units import whole_number

ATTRIBUTE_NAME, ATTRIBUTE_PROPERTIES = 8, 10
BOOTSTRAP = {8: 3, 9: 7, 10: 1}
"""Attribute nodes that every file implies, each with the type node that is its parent."""
TAKEN_FOR_GRANTED = 12
"""Nodes with a smaller number are implied and equal in every file."""
HIDDEN, NESTED = 128, 256


@dataclass(slots=True)
class _TreeNode:
    attribute: int
    data: str
    parent: int | None
    depth: int


@dataclass(frozen=True, slots=True)
class _Attribute:
    name: str
    hidden: bool
    nested: bool
    unit: str
    alias: str


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes = {i: _TreeNode(9, "", BOOTSTRAP.get(i), 1) for i in range(TAKEN_FOR_GRANTED)}
        self.nodes[8].data = "cali.attribute.name"
        self.nodes[9].data = "cali.attribute.type"
        self.nodes[10].data = "cali.attribute.prop"
        self._attributes: dict[int, _Attribute] = {}
        self._chains: dict[int, list[tuple[_Attribute, str]]] = {}

    def add_node(self, fields: dict[str, list[str]], line: int) -> None:
        number = self._number(fields, "id", line)
        attribute = self._number(fields, "attr", line)
        if number < TAKEN_FOR_GRANTED:
            return  # old versions of Caliper write the implied nodes, too
        if number in self.nodes:
            raise fault(self.path, line, f"defines node {number} a second time")
        parent, depth = None, 1
        if "parent" in fields:
            parent = self._number(fields, "parent", line)
            depth = self._node(parent, line).depth + 1
        if depth > MAX_DEPTH:
            raise fault(self.path, line, f"is nested deeper than {MAX_DEPTH} levels")
        self.nodes[number] = _TreeNode(attribute, "=".join(fields.get("data", [])), parent, depth)

    def expand(self, fields: dict[str, list[str]], line: int) -> TreeRow:
        """Return a snapshot record with its region path, numbers and labels.

        If an attribute has several values, the innermost one is used.
        """
        path: list[str] = []
        labels: dict[str, str] = {}
        for reference in fields.get("ref", []):
            for attribute, data in self._chain(self._integer(reference, "ref", line), line):
                if attribute.nested:
                    path.append(data)
                elif not attribute.hidden:
                    labels[attribute.name] = data
        keys, values = fields.get("attr", []), fields.get("data", [])
        if len(keys) != len(values):
            raise fault(self.path, line, f"has {len(keys)} attributes and {len(values)} values")
        record = TreeRow(tuple(path), {}, labels, line)
        for key, text in zip(keys, values, strict=True):
            record.put(self.attribute(self._integer(key, "attr", line), line).name, text)
        return record

    def attribute(self, number: int, line: int) -> _Attribute:
        known = self._attributes.get(number)
        if known is not None:
            return known
        node = self._node(number, line)
        if node.attribute != ATTRIBUTE_NAME:
            raise fault(self.path, line, f"refers to node {number}, which is no attribute")
        properties, facts = 0, {}
        above = node.parent
        while above is not None:
            upper = self.nodes[above]
            if upper.attribute == ATTRIBUTE_PROPERTIES:
                properties = self._integer(upper.data, "prop", line)
            elif upper.attribute not in (8, 9):
                facts[self.nodes[upper.attribute].data] = upper.data
            above = upper.parent
        described = _Attribute(
            name=node.data,
            hidden=bool(properties & HIDDEN),
            nested=bool(properties & NESTED),
            unit=facts.get("attribute.unit", ""),
            alias=facts.get("attribute.alias", ""),
        )
        self._attributes[number] = described
        return described

    def attributes(self) -> list[_Attribute]:
        return list(self._attributes.values())

    def _chain(self, number: int, line: int) -> list[tuple[_Attribute, str]]:
        chain = self._chains.get(number)
        if chain is None:
            node = self._node(number, line)
            chain = [] if node.parent is None else list(self._chain(node.parent, line))
            if node.attribute not in (8, 9, 10):
                chain.append((self.attribute(node.attribute, line), node.data))
            self._chains[number] = chain
        return chain

    def _node(self, number: int, line: int) -> _TreeNode:
        node = self.nodes.get(number)
        if node is None:
            raise fault(self.path, line, f"refers to node {number}, which no line above defines")
        return node

    def _number(self, fields: dict[str, list[str]], key: str, line: int) -> int:
        values = fields.get(key)
        if not values:
            raise fault(self.path, line, f"is a node without {key!r}")
        return self._integer(values[0], key, line)

    def _integer(self, text: str, key: str, line: int) -> int:
        number = whole_number(text)
        if number is None:
            raise fault(self.path, line, f"{key!r} is {text[:40]!r}, not a node's number")
        return number


def read(source: ImportedFile) -> list[CallTree]:
    """Return a ``.cali`` file as one CallTree. Raises DocumentError that names the faulty line."""
    file, records, facts = _File(source.path), [], {}
    for line, text in enumerate(source.text.splitlines(), start=1):
        if not text.strip():
            continue
        fields = _fields(text)
        kind = "".join(fields.get("__rec", []))
        if kind == "node":
            file.add_node(fields, line)
        elif kind == "ctx":
            records.append(file.expand(fields, line))
        elif kind == "globals":
            record = file.expand(fields, line)
            facts.update(record.labels)
            facts.update({name: f"{value:g}" for name, value in record.numbers.items()})
        else:
            raise fault(source.path, line, "is not a record of Caliper (no __rec=node|ctx|globals)")
        if len(records) > MAX_RECORDS or len(file.nodes) > MAX_RECORDS:
            raise fault(source.path, line, f"is beyond {MAX_RECORDS} records; aggregate it first")
    known = file.attributes()
    return [
        CallTree(
            records=records,
            facts=facts,
            units={a.name: a.unit for a in known if a.unit},
            aliases={a.name: a.alias for a in known if a.alias},
        )
    ]


def _fields(text: str) -> dict[str, list[str]]:
    """Return the fields of a line: ``a=1=2,b=3`` gives ``{"a": ["1", "2"], "b": ["3"]}``.

    A backslash escapes the next character.
    """
    if "\\" not in text:
        return {
            key: values for key, *values in (entry.split("=") for entry in text.strip().split(","))
        }
    result: dict[str, list[str]] = {}
    entry: list[str] = []
    word: list[str] = []
    symbols = iter(text.strip())
    for symbol in symbols:
        if symbol == "\\":
            escaped = next(symbols, "")
            word.append("\n" if escaped == "n" else escaped)
        elif symbol in ",=":
            entry.append("".join(word))
            word.clear()
            if symbol == ",":
                result[entry[0]] = entry[1:]
                entry = []
        else:
            word.append(symbol)
    entry.append("".join(word))
    result[entry[0]] = entry[1:]
    return result


REGION_COLUMNS = ("path", "region", "function", "annotation", "source.function#callpath.address")
"""Columns that may hold the region's name, in order of preference."""


def read_split(source: ImportedFile, data: dict[str, Any]) -> list[CallTree]:
    """Return a json-split file as one CallTree. Raises DocumentError that names the faulty key."""
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
        record = TreeRow((), {}, {}, index)
        for name, about, value in zip(columns, metadata, row, strict=True):
            reference = not (isinstance(about, dict) and about.get("is_value", True))
            if value is None:
                continue
            if reference:
                if type(value) is not int or not 0 <= value < len(paths):
                    raise _wrong(source, f"{key}.{name}", f"is {value!r}, not a node's number")
                if name == region:
                    record = TreeRow(paths[value], record.numbers, record.labels, index)
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
        CallTree(
            records=records,
            facts=facts,
            units={c: str(m["attribute.unit"]) for c, m in about.items() if "attribute.unit" in m},
            aliases={
                c: str(m["attribute.alias"]) for c, m in about.items() if "attribute.alias" in m
            },
        )
    ]


def read_plain(source: ImportedFile, data: list[Any]) -> list[CallTree]:
    """Return a JSON list of records as a CallTree. Raises DocumentError that names a bad one."""
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
        record = TreeRow(path, {}, {}, index)
        for name, value in entry.items():
            if name != region and value is not None:
                _put(record, name, value, source, f"[{index}]")
        records.append(record)
    return [CallTree(records=records)]


def _put(record: TreeRow, name: str, value: Any, source: ImportedFile, key: str) -> None:
    if not isinstance(value, str | int | float):
        raise _wrong(source, f"{key}.{name}", "is neither a number nor a string")
    record.put(name, value)


def _paths(source: ImportedFile, data: dict[str, Any]) -> list[tuple[str, ...]]:
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


def _strings(source: ImportedFile, data: dict[str, Any], key: str) -> list[str]:
    names = data.get(key)
    if not isinstance(names, list) or not all(isinstance(c, str) for c in names):
        raise _wrong(source, key, "is not a list of names")
    if len(set(names)) != len(names):
        raise _wrong(source, key, "names a column twice")
    return names


def _wrong(source: ImportedFile, key: str, problem: str) -> DocumentError:
    return DocumentError(source.path, problem, key=key)


def read_json(source: ImportedFile) -> list[CallTree]:
    """Return a JSON file of Caliper as one CallTree. Raises DocumentError."""
    data = json_of(source)
    if isinstance(data, list):
        return read_plain(source, data)
    if isinstance(data, dict):
        return read_split(source, data)
    raise DocumentError(source.path, "is neither a list of records nor json-split")


def json_of(source: ImportedFile) -> Any:
    """Return the parsed content of a JSON file. Raises DocumentError."""
    try:
        return json.loads(source.text)
    except RecursionError:
        raise DocumentError(source.path, "is nested too deeply") from None
    except ValueError as error:
        raise DocumentError(source.path, f"is not JSON: {error}") from None


READERS = (
    FileReader("caliper", PROFILE, (
        FileKind("Caliper's .cali", "caliper", starts=("__rec=",)),
    ), tree_runs(read, "caliper")),
    FileReader("caliper-json", PROFILE, (
        FileKind("Caliper's JSON", "caliper-json", late=True,
                 json=(r'"columns"\s*:', r'"(column_metadata|nodes|data)"\s*:')),
        FileKind("Caliper's JSON", "caliper-json", late=True, json=(r"^\s*\[\s*\{",)),
    ), tree_runs(read_json, "caliper")),
)  # fmt: skip
