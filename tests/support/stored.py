"""A decision as the store holds it; tests replace what they are about."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from berth.plugin.store import DecisionRecord

STORED_DECISION = DecisionRecord(
    id="1m7y4whj8kbbvxmm",
    time_s=1002.5,
    host="ctl",
    scheduler="slurm",
    user="alice",
    account=None,
    queue="auto",
    workload="stream",
    mode="enforce",
    action="edit",
    code="placed",
    reason="because",
    chosen="gpu",
    bundle="bundle-1",
    policy="fastest",
    inputs_digest="abc",
    latency_us=80,
    request='{"tasks": 1}',
    edits='{"queue": "gpu"}',
    ranked="[]",
)

NOW_S = 1_795_284_000.0


def row(candidate: str, cores: int, gpus: int, seconds: float, **more: Any) -> dict[str, Any]:
    """Return a ranked candidate of a decision as it is stored."""
    interval = [seconds / 2, seconds, seconds * 2]
    platform = f"platform-of-{candidate}"
    held = {"nodes": 1, "cores": cores, "gpus": gpus, "runtime_s": interval}
    return {"candidate": candidate, "platform": platform, "score": 1.0, **held, **more}


REQUEST = {"nodes": 0, "tasks": 1, "cpus_per_task": 4, "gpus": 0}
PLACED = replace(
    STORED_DECISION,
    time_s=NOW_S - 200,
    request=json.dumps(REQUEST),
    ranked=json.dumps([row("gpu", 8, 1, 60), row("cpu", 4, 0, 600)]),
)
