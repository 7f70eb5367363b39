"""Count a family that the table has not by transformers itself, in a child process without rights.

The model is built on torch's meta device: no weights, no downloads, no code that a configuration
points to. The child's time and files are bounded, and its reply is untrusted data.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.families import Cached, CountedModel, Weight
from berth.predictor.families.language_model.transformers_child import SECONDS

COUNTED = "berth_counted"
"""Key of the count in a configuration that is stored: who forecasts it needs no transformers."""
WAIT_S = 1800
"""Seconds that a process may take to get its processor time on a busy machine."""
_LARGEST_REPLY = 8 * 2**20
_PROGRAM = "from berth.predictor.families.language_model.transformers_child import main; main()"
_PARTS = frozenset({"attention", "dense", "expert", "embedding", "lookup", "head", "tower"})


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def count_by_transformers(raw: Mapping[str, Any], source: Path | str) -> dict[str, Any]:
    path = [entry for entry in sys.path if entry]
    kept = {k: os.environ[k] for k in ("LD_LIBRARY_PATH", "PATH") if k in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {_PROGRAM}"],
            input=json.dumps(dict(raw)).encode(), capture_output=True, timeout=WAIT_S, check=False,
            env={**kept, "HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent", "OMP_NUM_THREADS": "1",
                 "TRANSFORMERS_VERBOSITY": "error"},
        )  # fmt: skip
        reply = json.loads(done.stdout[:_LARGEST_REPLY])
    except subprocess.TimeoutExpired:
        raise DocumentError(
            source,
            f"could not be counted within {WAIT_S} s: the machine is busy",
            hint="try again when it is less busy",
        ) from None
    except ValueError:
        problem = "made the process that counts it fail"
        if done.returncode == -signal.SIGXCPU:
            problem = f"needs more than {SECONDS} s of processor time to be counted"
        raise DocumentError(source, problem) from None
    if not isinstance(reply, dict) or "problem" in reply:
        problem = str(reply.get("problem"))[:160] if isinstance(reply, dict) else "no answer"
        raise DocumentError(source, f"cannot be counted: {problem}", key="model_type")
    counted_before(reply, "", source)
    return reply


def counted_before(reply: Any, family: str, source: Path | str) -> CountedModel:
    """Return the count that a configuration carries. Raises DocumentError for nonsense."""
    try:
        weights = tuple(
            Weight(part if part in _PARTS else "dense", str(name), _positive(count))
            for part, name, count in reply["weights"]
        )
        cache = tuple(
            Cached(
                _positive(token),
                None if window is None else int(window),
                *map(_positive, (state, heads, size)),
            )
            for token, window, state, heads, size in reply["cache"]
        )
        sizes = {str(k): str(int(v)) for k, v in reply["sizes"].items()}
        latent = bool(reply["latent"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DocumentError(source, "is no count", key=COUNTED) from None
    if not weights or not cache:
        raise DocumentError(source, "is no count", key=COUNTED)
    entry = {"model_type": family, "sizes": sizes, "latent": latent}
    return CountedModel(entry, {"kv_lora_rank": int(latent)}, weights, cache)


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 <= number < 1e15:
        raise ValueError(value)
    return number
