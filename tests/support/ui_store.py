"""Decisions as the page shows them."""

from __future__ import annotations

import json
from dataclasses import replace

from stored import STORED_DECISION

from berth.plugin.store import DecisionRecord

REQUEST = {
    "tasks": 1, "cpus_per_task": 4, "nodes": 0, "gpus": 0, "memory_bytes_per_node": None,
    "time_limit_s": 3600.0, "size": None,
}  # fmt: skip
RANKED = [
    {"candidate": "gpu", "platform": "a100-40gb", "runtime_s": [8.0, 10.0, 14.0],
     "host_memory_bytes": [1, 2, 3 * 2**30],
     "gpu_memory_bytes": [1, 2, 4 * 2**30], "basis": "learned", "source": "finished jobs",
     "excluded": None, "warning": None},
    {"candidate": "cpu", "platform": "quartz", "runtime_s": [30.0, 40.0, 55.0],
     "host_memory_bytes": None, "gpu_memory_bytes": None,
     "basis": "calibrated", "source": None,
     "excluded": "its time limit is too short", "warning": None},
]  # fmt: skip


def decision(number: int, **changes: object) -> DecisionRecord:
    """One of many decisions, a second apart."""
    made = replace(
        STORED_DECISION,
        id=f"d{number:015d}",
        time_s=1_000_000.0 + number,
        reason="gpu is predicted fastest: 10 s.",
        request=json.dumps(REQUEST),
        ranked=json.dumps(RANKED),
    )
    return replace(made, **changes)  # type: ignore[arg-type]
