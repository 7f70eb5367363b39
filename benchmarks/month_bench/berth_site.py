"""That site as Berth sees it: its accounting imported, and its submissions answered, by Berth."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from month_bench.jobs import CORES_PER_NODE, KINDS, Job

from berth.plugin.daemon.app import view
from berth.plugin.daemon.record import Answered
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.site import load_site
from berth.plugin.store import Store
from berth.policies.values import CandidateState
from berth.policies.waits import Waits

PLATFORMS = {"old": "quartz", "new": "rome-7742"}
NODES = 256


class Answer(NamedTuple):
    """What Berth answered to one submission."""

    queues: tuple[str, ...]
    """The partitions that Berth chose, in order; empty: the job stays as written."""
    code: str
    basis: str
    """Basis of the prediction for the first partition; empty: none is used."""


def written(folder: Path) -> Path:
    """Write the site file into ``folder`` and return its path."""
    text = f"""schema = "berth.site/1"
mode = "enforce"
[site]
name = "month"
reference_platform = "{PLATFORMS["old"]}"
auto_partition = "auto"
[daemon]
socket = "{folder}/berth.sock"
store = "sqlite:///{folder}/store.db"
kill_switch = "{folder}/off"
scheduler_users = ["root"]
"""
    for kind in KINDS:
        text += f"""[[candidates]]
name = "{kind}"
platform = "{PLATFORMS[kind]}"
partition = "{kind}"
cores_per_node = {CORES_PER_NODE}
memory_per_node = "256G"
nodes = {NODES}
"""
    path = folder / "berth.toml"
    path.write_text(text)
    return path


def imported(lines: Iterable[str], folder: Path) -> tuple[Path, dict[str, object], float]:
    """Import accounting with Berth's command; return the site file, the command's result and the
    seconds it took."""
    site_file, accounting = written(folder), folder / "sacct.txt"
    accounting.write_text("\n".join(lines) + "\n")
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    words = ["jobs", "history", "import", str(accounting), "--utc", "--site", str(site_file)]
    begin_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--json"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"the import failed: {done.stderr.strip()}")
    return site_file, json.loads(done.stdout), time.monotonic() - begin_s


@dataclass
class Daemon:
    """The daemon's answering part with the imported store, without socket and threads."""

    site_file: Path
    decisions: list[Answered] = field(default_factory=list)

    def __post_init__(self) -> None:
        site = load_site(self.site_file)
        store = Store.open(site.daemon.store)
        self.service = Service(view(site), self.decisions.append)
        self.service.shelf = Shelf().updated(store.changes_since(0))
        store.close()

    def answer(self, job: Job, state_of: Callable[[str], CandidateState]) -> Answer:
        """Answer the submission of a job to ``auto`` in the present state of the two kinds."""
        states: Mapping[str, CandidateState] = MappingProxyType(
            {kind: state_of(kind) for kind in KINDS}
        )
        service = self.service
        service.snapshot = Snapshot(states, time.time(), time.monotonic())
        self.decisions.clear()
        reply = json.loads(service.handle(request_line(job)))
        queue = reply.get("edits", {}).get("queue", "")
        queues = tuple(queue.split(",")) if queue and queue != "auto" else ()
        decision = self.decisions[0].decision if self.decisions else None
        chosen = decision.ranked[0] if queues and decision and decision.ranked else None
        basis = "" if chosen is None or chosen.basis is None else chosen.basis.value
        return Answer(queues, str(reply["code"]), basis)


def idle(_: str) -> CandidateState:
    """An empty kind of node."""
    return present(NODES * CORES_PER_NODE, 0, None)


def present(idle_cores: int, pending: int, waits: Waits | None) -> CandidateState:
    """The present state of one kind."""
    return CandidateState(True, idle_cores, 0, pending, time.time(), NODES, waits=waits)


def request_line(job: Job) -> bytes:
    """A submission as the Slurm filter sends it."""
    message = {
        "v": 1,
        "op": "decide",
        "scheduler": "slurm",
        "job": {
            "user": job.user,
            "account": job.account,
            "name": job.program,
            "queue": "auto",
            "queues": ["auto", *KINDS],
            "kind": "batch",
            "tasks": job.cores,
            "cpus_per_task": 1,
            "memory_mib_per_cpu": job.memory_mib,
            "time_limit_min": int(job.limit_s // 60),
        },
    }
    return json.dumps(message, separators=(",", ":")).encode()
