"""The ``flux`` command as a shell script that answers from files: for what it never says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from flux_bench import recorded

_SCRIPT = """#!/bin/sh
echo "flux $*" >> "{folder}/calls"
case "$1 $2 $3" in
  python*state*|python*memory*) name=state;; python*jobs*) name=outcomes;;
  python*ended*) name=ended;;
  "job info --original"*) name=original;; "job info"*) name=jobspec;; *) name=$1;;
esac
[ -f "{folder}/$name.hang" ] && exec sleep 60
[ -f "{folder}/$name.out" ] && cat "{folder}/$name.out"
if [ -f "{folder}/$name.err" ]; then cat "{folder}/$name.err" >&2; exit 1; fi
exit 0
"""


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


class FakeFlux:
    """The command on PATH; ``says`` and ``fails`` set what it does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        tools = folder / "bin"
        tools.mkdir(parents=True)
        (tools / "flux").write_text(_SCRIPT.format(folder=folder))
        (tools / "flux").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin")
        self.says("state", json.dumps(state()))
        self.says("submit", "ƒ2Ppor5M\n")
        self.says("batch", "ƒ2Ppor5M\n")
        self.says("ended", "")
        self.says("outcomes", json.dumps({"ƒ2Ppor5M": recorded("rpc_job-list.list-id")}))

    def says(self, what: str, text: str | bytes) -> None:
        """Set an answer."""
        raw = text.encode() if isinstance(text, str) else text
        (self.folder / f"{what}.out").write_bytes(raw)

    def fails(self, what: str, message: str) -> None:
        """Let it fail with these words."""
        (self.folder / f"{what}.err").write_text(message)

    def hangs(self, what: str) -> None:
        """Let it never answer."""
        (self.folder / f"{what}.hang").touch()

    @property
    def calls(self) -> list[str]:
        """What was run so far."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []
