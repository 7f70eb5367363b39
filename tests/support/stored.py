"""A decision as the store holds it; tests replace what they are about."""

from __future__ import annotations

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
