"""Graphs and what was predicted from them, remembered: by the file's identity, and by its hash.

A file that was not touched is not read again: device, inode, size and both times tell. A file so
fresh that another change could carry the same times is read, but not remembered by them. What is
made of a graph (features, predictions) is for ``Recent`` by the graph's digest, so a copy of a
model, or another export of it, costs no second prediction.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import Reader, check_sizes, open_plain, shared

V = TypeVar("V")
SETTLED_S = 2.0
"""Age from which a file's times tell its changes apart on every file system."""


class Recent(Generic[V]):
    """The last ``size`` values by key. Safe to share between threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> V | None:
        """The value, if it is still remembered."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: V) -> None:
        """Remember, and forget what was used least recently."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self.size:
                self._values.popitem(last=False)

    def made(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value, made now where it is not remembered."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value


class GraphCache:
    """Reads graphs through a child, once a file and batch."""

    def __init__(self, reader: Reader | None = None, size: int = 128) -> None:
        self._reader = reader
        self._graphs: Recent[ModelGraph] = Recent(size)

    def read(
        self, path: Path, *, batch: int | None = None, sizes: Mapping[str, int] | None = None
    ) -> ModelGraph:
        """As ``reader.read_graph``; a file that did not change is not read again."""
        wanted = (batch, tuple(sorted((sizes or {}).items())))
        try:
            found = self._graphs.get((_identity(Path(path).stat()), wanted))
        except (OSError, ValueError):
            found = None  # reading it says why
        if found is not None:
            return found
        check_sizes(path, batch, sizes)
        handle = open_plain(path)
        try:
            status = os.fstat(handle)
            reader = self._reader or shared()
            graph = reader.read_open(handle, source=path, batch=batch, sizes=sizes)
            after = os.fstat(handle)
        finally:
            os.close(handle)
        if _identity(status) == _identity(after) and time.time() - status.st_ctime > SETTLED_S:
            self._graphs.put((_identity(status), wanted), graph)
        return graph


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip
