"""What ``flux`` says, from recorded replies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_commands import FakeCommands
from flux_bench import recorded


def state(**changes: Any) -> dict[str, Any]:
    """What ``services.py memory`` prints, from the recorded replies."""
    return {
        "config.get": recorded("rpc_config.get"),
        "resource.sched-status": recorded("rpc_resource.sched-status"),
        "job-list.job-stats": {
            "job_states": {"depend": 0, "priority": 0, "sched": 3, "run": 1},
            "queues": [
                {"name": "cpu", "job_states": {"depend": 1, "priority": 0, "sched": 2, "run": 0}},
                {"name": "gpu", "job_states": {"depend": 0, "priority": 0, "sched": 0, "run": 1}},
            ],
        },
        "job-manager.queue-status": {
            "cpu": {"enable": True, "start": True},
            "gpu": {"enable": True, "start": True},
        },
        "version": "0.88.0",
        "host": "node[0-3]",
        "owner": "flux",
        "memory": {str(r): {"bytes": 2**36, "architecture": "x86_64"} for r in range(4)},
        **changes,
    }


def recorded_flux(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    made = FakeCommands(folder / "bin", ("flux",))
    made.on_path(monkeypatch, Path(sys.executable).parent)
    made.says("state", json.dumps(state()))
    made.says("submit", "ƒ2Ppor5M\n")
    made.says("batch", "ƒ2Ppor5M\n")
    made.says("ended", "")
    made.says("outcomes", json.dumps({"ƒ2Ppor5M": recorded("rpc_job-list.list-id")}))
    return made
