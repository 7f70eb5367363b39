"""The site of the daemon's benchmarks: forty candidates, seven programs, requests for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from berth_daemon import Harbour, RunningDaemon, fake_slurm, forecast, harbour, wait_until
from made_forecasts import put

from berth.predictor.core.forecast import Forecast

CANDIDATES = 40
PROGRAMS = 7


def forecasts() -> list[Forecast]:
    return [forecast(f"program{n}", cpu_s=600.0 + n) for n in range(PROGRAMS)]


@contextmanager
def programs_site() -> Iterator[tuple[Harbour, Path]]:
    """That site with the programs' forecasts, and the folder of its fake Slurm's commands."""
    with harbour() as site:
        site.site_file.write_text(site_text(site.folder))
        put(site.store(), *forecasts())
        partitions, nodes = slurm_texts()
        commands = fake_slurm(site.folder / "bin", partitions=partitions, nodes=nodes)
        yield site, commands.tools


def started(site: Harbour, commands: Path) -> RunningDaemon:
    """``berth serve`` for that site, once it has read the cluster's state."""
    daemon = site.start(state=False, path=commands)
    wait_until(lambda: daemon.stats()["state_age_s"] is not None)
    return daemon


def site_text(folder: Path) -> str:
    """A site with forty candidates: half CPU, half GPU partitions of distinct kinds."""
    lines = [
        'schema = "berth.site/1"\nmode = "enforce"\n[site]\nauto_partition = "auto"\n'
        f'[daemon]\nsocket = "berth.sock"\nstore = "sqlite:///{folder}/store.db"\n'
        'kill_switch = "off"\nscheduler_users = ["root"]\nstate_refresh_s = 1\n'
    ]
    for index in range(CANDIDATES // 2):
        lines.append(
            f'[[candidates]]\nname = "cpu{index}"\nplatform = "rome-7742"\n'
            f'partition = "cpu{index}"\ncores_per_node = {32 + index}\nnodes = 8\n'
            f'[[candidates]]\nname = "gpu{index}"\nplatform = "a100-80gb"\n'
            f'partition = "gpu{index}"\ngres = "gpu:a100"\ngpus_per_node = 4\n'
            f"cores_per_node = {32 + index}\nnodes = 4\n"
            "[candidates.translation]\ngpus = 1\ncpus_per_gpu = 8\n"
        )
    return "\n".join(lines)


def slurm_texts() -> tuple[str, str]:
    """What the fake scontrol says of that site's partitions and nodes."""
    partitions, nodes = [], []
    for index in range(CANDIDATES // 2):
        for kind, gres in (("cpu", "(null)"), ("gpu", "gpu:a100:4")):
            name = f"{kind}{index}"
            partitions.append(f"PartitionName={name} State=UP MaxTime=UNLIMITED AllowAccounts=ALL")
            nodes.append(
                f"NodeName={name} CPUTot=64 CPUAlloc=0 Sockets=2 CoresPerSocket=32 State=IDLE "
                f"Gres={gres} GresUsed={gres} RealMemory=262144 Partitions={name}"
            )
    return "\n".join(partitions) + "\n", "\n".join(nodes) + "\n"


def request_line(number: int, kind: str) -> bytes:
    """A decide request as the Slurm filter sends it.

    ``new``: every one has a shape (tasks, memory, time) never seen before, the worst case.
    ``sizes``: every one has a problem size never seen before.
    ``mix``: fifty users, seven programs, a few hundred shapes between them.
    ``burst``: five jobs again and again, as a loop around sbatch sends them.
    """
    if kind == "burst":
        number %= 5
    queues = [f"{kind}{index}" for kind in ("cpu", "gpu") for index in range(CANDIDATES // 2)]
    job = {
        "uid": 1000 + number % 50,
        "user": f"user{number % 50}",
        "account": "physics",
        "queue": "auto",
        "queues": queues,
        "comment": f"berth:program{number % PROGRAMS}",
        "script": "#!/bin/bash\n#SBATCH -n 16\nsrun ./app input\n" * 4,
        "kind": "batch",
        "tasks": 1 + number % 16,
        "cpus_per_task": 1,
        "time_limit_min": 720 * (1 + number % 3),
    }
    if kind == "new":
        job["memory_mib_per_node"] = 1000 + number
    if kind == "sizes":
        job["comment"] = f"berth:program{number % PROGRAMS}@{1000 + number}"
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": job}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
