"""Names and versions of serving frameworks, as people write them."""

from __future__ import annotations

import re

_NAMES = {
    "tensorrtllm": "trtllm", "trtllm": "trtllm", "trt": "trtllm", "tensorrt": "trtllm",
    "vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp", "deepspeedmii": "deepspeed-mii",
    "mii": "deepspeed-mii",
}  # fmt: skip
_WRITTEN = re.compile(r"(?P<name>.*?)(?:[\s:=@_-]*[=:@\s_-]v?(?P<version>\d+(?:\.\w+)+.*))?")


def named(text: str) -> tuple[str, str]:
    """Return the framework's name as in the bundle, and its version (empty: none is given).

    ``vLLM``, ``vllm==0.9.2``, ``TensorRT-LLM 1.2`` and ``sglang:v0.5.9`` are all read.
    """
    match = _WRITTEN.fullmatch(text.strip().lower())
    name, version = (match["name"], match["version"] or "") if match else (text.lower(), "")
    plain = re.sub(r"[^a-z]", "", name)
    return _NAMES.get(plain, name), version


def release(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, at most three; none of ``nightly``."""
    numbers = re.match(r"\d+(\.\d+){1,2}", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
