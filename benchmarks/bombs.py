"""Files that unpack to far more than they hold: what does each reader take to refuse or read them?

Each file is made here and given to the command that reads its kind, in a process of its own. The
table says the file's size, the processor time and the largest memory of that process, and its
answer. No reader may take 1 GiB or 5 s of processor time, nor end in a traceback.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

MOST_BYTES, MOST_S = 2**30, 5.0
MIB = 2**20


def zeros(size: int, packed: Callable[[io.BytesIO], io.IOBase]) -> bytes:
    stream = io.BytesIO()
    with packed(stream) as file:
        for _ in range(size // MIB):
            file.write(bytes(MIB))
    return stream.getvalue()


def gzipped(line: bytes, times: int) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb") as file:
        for _ in range(times):
            file.write(line)
    return stream.getvalue()


def zipped(name: str, size: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(
        name, "w", force_zip64=True
    ) as member:  # fmt: skip
        for _ in range(size // MIB):
            member.write(bytes(MIB))
    return stream.getvalue()


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx(graph: bytes) -> bytes:
    return b"\x08\x08" + field(8, b"\x10\x11") + field(7, graph)


def onnx_nested(depth: int) -> bytes:
    """An operator in a graph in an operator ...: ``If`` in ``If``."""
    graph = b""
    for _ in range(depth):
        branch = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(4, b"If") + field(5, branch))
    return onnx(graph)


def onnx_wide(count: int) -> bytes:
    """Many operators without names."""
    return onnx(field(1, field(1, b"x") + field(2, b"x") + field(4, b"Relu")) * count)


def onnx_large_dimensions() -> bytes:
    """A weight of 2^60 elements that holds none, and a product with it."""
    weight = b"\x08" + varint(2**30) + b"\x08" + varint(2**30) + b"\x10\x01" + field(8, b"w")
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"MatMul")
    return onnx(field(1, node) + field(5, weight))


SWF = b"1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 -1 -1 -1\n"
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
          "num_attention_heads": 32, "vocab_size": 32000, "intermediate_size": 11008}  # fmt: skip
PREDICT, REPLAY, IMPORT = (
    ("predict",),
    ("replay", "--cores", "8"),
    ("pilot", "import", "--platform", "quartz", "-o", "out-files"),
)
FILES: dict[str, tuple[tuple[str, ...], Callable[[], bytes]]] = {
    "deep.json": (PREDICT, lambda: b'{"a":' * 1_000_000),
    "long.json": (PREDICT, lambda: b"[" + b"0," * 20_000_000 + b"0]"),
    "keys.toml": (PREDICT, lambda: b"a" + b".a" * 3_900_000 + b" = 1"),
    "trace.swf.gz": (REPLAY, lambda: gzipped(SWF * 1000, 10_000)),
    "zeros.gz": (REPLAY, lambda: zeros(480 * MIB, lambda s: gzip.GzipFile(fileobj=s, mode="wb"))),
    "model.pt": (PREDICT, lambda: zipped("archive/data.pkl", 4096 * MIB)),
    "model.keras": (PREDICT, lambda: zipped("config.json", 4096 * MIB)),
    "nested.onnx": (PREDICT, lambda: onnx_nested(300)),
    "wide.onnx": (PREDICT, lambda: onnx_wide(3_000_000)),
    "dimensions.onnx": (PREDICT, onnx_large_dimensions),
    "header.safetensors": (PREDICT, lambda: (2**40).to_bytes(8, "little") + b"{" * 1000),
    "counts.gguf": (PREDICT, lambda: b"GGUF\x03\0\0\0" + (2**60).to_bytes(8, "little") * 2),
    "config.json": (PREDICT, lambda: json.dumps(CONFIG | {"num_hidden_layers": 10**9}).encode()),
    "deep.cali-json": (IMPORT, lambda: b'{"data": [], "columns": [' + b"[" * 1_000_000),
    "perf.csv": (IMPORT, lambda: b"1,,cycles,1,100.00,,\n" * 3_000_000),
    "perf.json": (IMPORT, lambda: b'{"counter-value" : "1", "event" : "cycles"}\n' * 1_500_000),
    "ncu.csv": (
        IMPORT,
        lambda: (
            b'"ID","Process ID","Kernel Name","Metric Name","Metric Value"\n'
            + b'"0","1","k","a","1"\n' * 3_300_000
        ),
    ),
    "parts.callgrind": (
        IMPORT,
        lambda: b"# callgrind format\nevents: Ir\nfn=a\n" + b"1 1\n" * 16_000_000,
    ),
}


def main() -> int:
    print(f"{'file':<20} {'MiB':>7} {'s':>6} {'peak MiB':>9}  answer")
    over = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, (words, make) in FILES.items():
            path = folder / file
            path.write_bytes(make())
            command = [str(Path(sys.executable).with_name("berth")), *words, str(path)]
            with (folder / "out").open("wb+") as out:
                child = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
                _, status, used = os.wait4(child.pid, 0)
                child.returncode = status
                out.seek(0)
                lines = out.read().decode(errors="replace").strip().splitlines() or [""]
            took_s, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
            crashed = os.WIFSIGNALED(status) or any("Traceback" in line for line in lines)
            is_over = took_s > MOST_S or peak > MOST_BYTES or crashed
            over += is_over
            size = path.stat().st_size / MIB
            mark = "OVER " if is_over else ""
            figures = f"{size:7.1f} {took_s:6.1f} {peak / MIB:9.0f}"
            print(f"{file:<20} {figures}  {mark}{lines[0][:90]}")
            path.unlink()
    print(f"{len(FILES) - over} of {len(FILES)} under 1 GiB and 5 s of processor time")
    return over


if __name__ == "__main__":
    sys.exit(main() > 0)
