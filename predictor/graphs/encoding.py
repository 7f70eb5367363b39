"""How a graph travels from the child to its parent: a JSON head and columns of integers.

Standard library only. No pickles: the parent treats what it receives as data of unknown origin.
"""

from __future__ import annotations

import json
import sys
from array import array
from itertools import chain

from berth.predictor.graphs.infer import Inferred


def encode(graph: Inferred) -> bytes:
    """Four bytes of the head's length, the head, then kinds (int64), kind of each node, sources
    and targets of edges (int32), little-endian."""
    names = sorted({kind.operator for kind in graph.kinds})
    place = {name: n for n, name in enumerate(names)}
    head = {
        "batch": graph.batch,
        "opset": graph.opset,
        "producer": graph.producer,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "operators": names,
        "operator_of": [place[kind.operator] for kind in graph.kinds],
        "kinds": len(graph.kinds),
        "nodes": len(graph.kind_of),
        "edges": len(graph.sources),
        "parameters": graph.parameters,
        "stored": graph.stored,
        "stored_bytes": graph.stored_bytes,
        "folded": graph.folded,
        "unknown": graph.unknown,
        "assumed": graph.assumed,
        "digest": graph.digest,
    }
    table = array("q", chain.from_iterable(kind.row for kind in graph.kinds))
    lists = [array("i", rows) for rows in (graph.kind_of, graph.sources, graph.targets)]
    if sys.byteorder == "big":
        for column in (table, *lists):
            column.byteswap()
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join(
        [len(text).to_bytes(4, "little"), text, table.tobytes(), *(x.tobytes() for x in lists)]
    )
