"""Store a model graph in a JSON document: the bytes of ``child.encode``, compressed, in base64."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

from berth.pilot.errors import DocumentError
from berth.predictor.graphs.graph import MalformedGraph, ModelGraph, decode

_LINE = 32_768
LARGEST_GRAPH_BYTES = 64 * 2**20


def to_lines(graph: ModelGraph) -> tuple[str, ...]:
    """Return the graph as lines of base64 text, from which ``from_lines`` restores the graph."""
    text = base64.b64encode(zlib.compress(graph.encoded, level=9)).decode("ascii")
    return tuple(text[at : at + _LINE] for at in range(0, len(text), _LINE))


def from_lines(lines: Sequence[str], source: str) -> ModelGraph:
    """Return the graph that ``to_lines`` encoded. Raises DocumentError for other text."""
    try:
        packed = base64.b64decode("".join(lines), validate=True)
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, LARGEST_GRAPH_BYTES)
        if not unpacker.eof:
            raise MalformedGraph("it is cut short or too large")
        return decode(data)
    except (binascii.Error, ValueError, zlib.error, MalformedGraph) as error:
        raise DocumentError(source, f"does not hold a model graph: {error}", key="graph") from None
