"""The site as Berth sees it: its accounting imported, and its submissions answered, by Berth."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from month_bench.jobs import Job
from month_bench.queues import Pool, Queues
from month_bench.sites import CORES_PER_NODE, GPUS_PER_NODE, NODES, Kind, written

from berth.plugin.daemon.app import view
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.site import load_site
from berth.plugin.store import Store
from berth.policies.values import CandidateState
from berth.predictor.core.prediction import Interval

_HEADER = (
    "JobID|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|"
    "NNodes|ReqMem|AllocTRES|JobName"
)


class _Wait(NamedTuple):
    """The wait that the queue's state implies for one job, as Berth's look-ahead gives it."""

    seconds: float

    def at(self, units: int, runtime_s: float) -> Interval:
        """Return the wait for any size and time: it was computed for this job."""
        return Interval(self.seconds, self.seconds, self.seconds)


class BerthSite:
    """The answering part of the daemon, without socket and threads, after the import."""

    def __init__(
        self, kinds: Sequence[Kind], month: Iterable[Job], end_s: float, folder: Path
    ) -> None:
        """Import the jobs of the month that ended before ``end_s``, unless the folder has them."""
        folder.mkdir(parents=True, exist_ok=True)
        site_file, imported = written(kinds, folder), folder / "imported"
        if not imported.exists():
            _import(site_file, _accounting(month, end_s), folder / "sacct.txt")
            imported.touch()
        site = load_site(site_file)
        store = Store.open(site.daemon.store)
        self.unanswered: set[int] = set()
        """Numbers of jobs that stayed as written."""
        self._kinds, self._service = kinds, Service(view(site), lambda _: None)
        self._always: dict[int, tuple[str, ...] | None] = {}
        """Answers by the numbers of jobs that do not depend on the queues; None: it does."""
        self._service.shelf = Shelf().updated(store.changes_since(0))
        store.close()

    def places(self, queues: Queues, job: Job) -> tuple[str, ...]:
        """Return where a job that is submitted to ``auto`` may start: on the partitions that Berth
        chooses, else on all nodes in their order.

        A job is asked on idle queues and with a short wait on each kind that it fits; where the
        answers are the same, they do not depend on waits, and it is not asked again."""
        if job.number not in self._always:
            idle = Queues(
                {name: Pool(p.size, of_gpus=p.of_gpus) for name, p in queues.pools.items()}
            )
            answers = {
                self._asked(idle, job, {kind: 1.0 for kind in (busy,) if kind})
                for busy in ("", *job.fitting)
            }
            self._always[job.number] = answers.pop() if len(answers) == 1 else None
        always = self._always[job.number]
        if always is not None:
            return always
        starts_s = queues.starts_s(job, by_limits=True)
        return self._asked(
            queues, job, {kind: start_s - queues.now_s for kind, start_s in starts_s.items()}
        )

    def _asked(self, queues: Queues, job: Job, waits_s: Mapping[str, float]) -> tuple[str, ...]:
        """Return Berth's answer; ``waits_s``: by kind, none: it has room."""
        states = {
            kind.name: _state(kind, queues.pools[kind.name], waits_s.get(kind.name, 0.0))
            for kind in self._kinds
        }
        self._service.snapshot = Snapshot(states, time.time(), time.monotonic())
        reply = json.loads(self._service.handle(_request_line(job, self._kinds)))
        queue = reply.get("edits", {}).get("queue", "auto")
        if queue == "auto":
            self.unanswered.add(job.number)
        return tuple(job.run_s) if queue == "auto" else tuple(queue.split(","))


def _import(site_file: Path, lines: Iterable[str], accounting: Path) -> None:
    """Import accounting by Berth's command."""
    accounting.write_text("\n".join(lines) + "\n")
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    words = ["jobs", "history", "import", str(accounting), "--utc", "--site", str(site_file)]
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the import failed: {done.stderr.strip()}")


def _state(kind: Kind, pool: Pool, wait_s: float) -> CandidateState:
    free = 0 if wait_s > 0 else pool.free
    cores, gpus = free, 0
    if kind.gres:
        cores, gpus = free * CORES_PER_NODE // GPUS_PER_NODE, free
    return CandidateState(
        True, cores, gpus, len(pool.waiting), time.time(), NODES,
        gpu_types=(kind.gres,) if kind.gres else (),
        waits=_Wait(wait_s),
    )  # fmt: skip


def _request_line(job: Job, kinds: Sequence[Kind]) -> bytes:
    """A submission as the Slurm filter sends it."""
    described: dict[str, object] = {
        "user": job.user,
        "account": f"of-{job.user}",
        "name": job.name,
        "queue": "auto",
        "queues": ["auto", *(kind.name for kind in kinds)],
        "kind": "batch",
        "tasks": job.gpus or job.cores,
        "cpus_per_task": job.cores // (job.gpus or job.cores),
        "memory_mib_per_cpu": job.memory_mib,
        "time_limit_min": int(job.limit_s // 60),
    }
    if job.fitting == ("himem",):
        described["nodes"] = 1
        del described["memory_mib_per_cpu"]
        described["memory_mib_per_node"] = job.cores * job.memory_mib
    if job.gpus:
        described["nodes"] = math.ceil(job.gpus / GPUS_PER_NODE)
        described["gres"] = f"gpu:{min(job.gpus, GPUS_PER_NODE)}"
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": described}
    return json.dumps(message, separators=(",", ":")).encode()


def _accounting(jobs: Iterable[Job], end_s: float) -> Iterator[str]:
    """Lines of ``sacct --parsable2`` of the jobs that end before ``end_s``, which is now."""
    offset_s = time.time() - end_s - 60.0

    def moment(seconds: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds + offset_s))

    yield _HEADER
    for job in jobs:
        elapsed_s = job.run_s[job.own]
        if job.start_s + elapsed_s > end_s:
            continue
        state = "COMPLETED" if job.completed else "FAILED"
        if elapsed_s >= job.limit_s:
            state = "TIMEOUT"
        times = [moment(job.submit_s), moment(job.start_s), moment(job.start_s + elapsed_s)]
        nodes = max(1, job.cores // CORES_PER_NODE, math.ceil(job.gpus / GPUS_PER_NODE))
        tres = f"billing={job.cores},cpu={job.cores}"
        if job.gpus:
            gpu = job.own.replace("gpu-old", "p100").replace("gpu-new", "v100")
            tres += f",gres/gpu={job.gpus},gres/gpu:{gpu}={job.gpus}"
        row: list[object] = [
            job.number, job.user, f"of-{job.user}", job.own, state, *times, int(elapsed_s),
            int(job.limit_s // 60), job.cores, nodes, f"{job.memory_mib * job.cores}M", tres,
            job.name,
        ]  # fmt: skip
        yield "|".join(map(str, row))
