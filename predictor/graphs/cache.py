"""Graphs and what was predicted from them, remembered: by the file's identity, and by its hash.

A file that was not touched is not read again: device, inode, size and both times tell. A file so
fresh that another change could carry the same times is read, but not remembered by them. What is
made of a graph (features, predictions) is cached by the graph's digest elsewhere, so a copy of a
model, or another export of it, costs no second prediction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping
from pathlib import Path

from berth.pilot.bounded import BoundedCache
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import Reader, check_sizes, open_plain, shared

SETTLED_S = 2.0
"""Age from which a file's times tell its changes apart on every file system."""


class GraphCache:
    """Reads graphs through a child, once a file and batch."""

    def __init__(self, reader: Reader | None = None, size: int = 128) -> None:
        self._reader = reader
        self._graphs: BoundedCache[Hashable, ModelGraph] = BoundedCache(size, by_use=True)

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
