"""The child process that parses users' model files, without privileges.

The child's memory and time are bounded, and it uses the standard library only.
``reader`` starts it with one end of a socket as standard input. A request is a JSON line with the
file's descriptor beside it (SCM_RIGHTS), so the child needs no access to any folder. A reply is a
byte ("g" graph, "e" refusal, "o" refusal of an older operator set), eight bytes of length, and the
graph or ``[problem, hint]``. A graph travels as a JSON head and columns of integers. Pickles are
not used, because the parent treats each reply as untrusted data.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
from array import array
from itertools import chain

from berth.pilot.protobuf import Problem
from berth.predictor.graphs import infer, onnx_file
from berth.predictor.graphs.infer import Inferred
from berth.predictor.graphs.limits import FileLimits
from berth.predictor.graphs.onnx_file import Converter, OlderOpset


def encode(graph: Inferred) -> bytes:
    """Return the graph encoded as little-endian bytes, which ``graph.decode`` reads.

    The layout is: four bytes with the length of the JSON head, the head, the table of kinds
    (int64), then the kind of each node, the sources and the targets of the edges (int32).
    """
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


NOBODY = 65534
CONVERT = "convert"
"""Second argument of a child that converts files of older operator sets by the onnx library."""
READY = b"r"
"""Sent once to the parent, when privileges are dropped and requests are accepted."""
_NO_NEW_PRIVILEGES = 38
_DUMPABLE = 4


def drop_rights(limits: FileLimits) -> None:
    """Drop this process's privileges and limit its memory, files and processes to ``limits``."""
    os.chdir("/")
    for which, value in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        _, hard = resource.getrlimit(which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))
    if os.getuid() == 0:
        with contextlib.suppress(PermissionError):
            os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        library.prctl(_DUMPABLE, 0, 0, 0, 0)


def main() -> None:
    """Answer the parent's requests until the parent closes its end of the socket."""
    channel = socket.socket(fileno=0)
    limits = FileLimits(**json.loads(sys.argv[1]))
    convert: Converter | None = None
    if CONVERT in sys.argv[2:]:
        # The library is imported only here, and before the rights to read its files are dropped.
        from berth.predictor.graphs.older_opsets import converted  # noqa: PLC0415

        convert = converted
    drop_rights(limits)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # a graph is many small tuples, none of them in a cycle
    gc.freeze()
    channel.sendall(READY)
    while True:
        line, handles, _, _ = socket.recv_fds(channel, 65536, 1)
        if not line or not handles:
            return
        _bound_time(limits.seconds)
        request = json.loads(line)
        try:
            kind, body = b"g", _graph(handles[0], request, limits, convert)
        except Problem as problem:
            kind = b"o" if isinstance(problem, OlderOpset) else b"e"
            body = json.dumps([problem.problem, problem.hint]).encode()
        except (MemoryError, RecursionError):
            kind, body = b"e", json.dumps([_TOO_LARGE, None]).encode()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            problem_text = f"is malformed ({type(error).__name__} in its reader)"
            kind, body = b"e", json.dumps([problem_text, None]).encode()
        finally:
            os.close(handles[0])
        channel.sendall(kind + len(body).to_bytes(8, "little") + body)
        del body
        gc.collect()


_TOO_LARGE = "needs more memory to read than is allowed"


def _graph(
    handle: int, request: dict[str, object], limits: FileLimits, convert: Converter | None
) -> bytes:
    batch, sizes = request.get("batch"), request.get("sizes")
    model = onnx_file.read(handle, limits, convert)
    graph = infer.infer(
        model,
        batch if isinstance(batch, int) else None,
        {str(k): int(v) for k, v in sizes.items()} if isinstance(sizes, dict) else {},
        limits,
    )
    return encode(graph)


def _bound_time(seconds: float) -> None:
    """Let the kernel end this process after ``seconds`` more of processor time."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    bound = int(used + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (bound if hard < 0 else min(bound, hard), hard))


if __name__ == "__main__":
    main()
