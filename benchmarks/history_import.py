"""Times the import of past jobs: ``python benchmarks/history_import.py [--jobs 250000]``.

Reads generated output of sacct and stores the jobs in a new SQLite file, twice: with the columns
that Berth asked for before it read nodes and GPU use (``plain``), and with all columns that it asks
for now (``full``): node lists, processor time, disk, energy, GPU use, and a jobstats summary in the
AdminComment of each tenth job. The bar: ``full`` takes at most 1.2 times as long as ``plain`` took
before those columns were read.

With ``--workloads`` it also makes the history workloads of these jobs, and reads them once more for
the ratios between kinds alone: past jobs are read twice, because a program's workload needs the
ratios of all programs, and all jobs at once would need hundreds of MB. The bar is the same.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.decided_jobs import by_user
from berth.plugin.history.files import read_past_jobs
from berth.plugin.history.run_times import PlacedJob
from berth.plugin.history.site_ratios import SiteRatios
from berth.plugin.history.workloads import make_workloads
from berth.plugin.site import load_site
from berth.plugin.store import Store

SITE = """schema = "berth.site/1"
[site]
name = "lab"
[daemon]
socket = "berth.sock"
store = "store.sqlite"
kill_switch = "off"
scheduler_users = ["root"]
[[candidates]]
name = "cpu"
platform = "quartz"
partition = "cpu"
cores_per_node = 64
memory_per_node = "256G"
nodes = 8
"""

PLAIN = (
    "JobID", "User", "Account", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "AllocCPUS", "NNodes", "NTasks", "ReqMem", "MaxRSS", "AllocTRES",
    "TRESUsageInMax", "JobName",
)  # fmt: skip
FULL = (
    *PLAIN[:-1], "NodeList", "TotalCPU", "ConsumedEnergyRaw", "TRESUsageInAve", "TRESUsageInTot",
    "TRESUsageOutTot", "AdminComment", "JobName",
)  # fmt: skip


def lines_of_sacct(columns: tuple[str, ...], jobs: int) -> Iterator[str]:
    """Yield sacct's lines for ``jobs`` jobs with a batch step each: a tenth use a GPU."""
    draw = random.Random(7)  # noqa: S311
    comments = [_jobstats(draw) for _ in range(50)]
    yield "|".join(columns)
    for number in range(1, jobs + 1):
        begin = 1_793_000_000 + 20 * number
        seconds = draw.randrange(30, 86_400)
        gpu = number % 10 == 0
        job = {
            "JobID": str(number), "User": f"u{draw.randrange(300)}", "Account": "phys",
            "Partition": "gpu" if gpu else "cpu", "State": "COMPLETED", "Submit": str(begin),
            "Start": str(begin + 60), "End": str(begin + 60 + seconds),
            "ElapsedRaw": str(seconds), "TimelimitRaw": "1440", "AllocCPUS": "16",
            "NNodes": "1" if number % 7 else "4", "ReqMem": "64G",
            "AllocTRES": f"billing=16,cpu=16,mem=64G,node=1{',gres/gpu=1,gres/gpu:a100=1' * gpu}",
            "JobName": f"run_{draw.randrange(40)}.sh",
            "NodeList": f"cn{draw.randrange(1000):04d}" if number % 7 else "cn[0101-0103,0200]",
            "TotalCPU": "10:12:33", "ConsumedEnergyRaw": "1234567",
            "AdminComment": comments[number % 50] if gpu else "",
        }  # fmt: skip
        used = "cpu=10:12:33,energy=12,fs/disk=73400320,mem=3276800K,pages=3,vmem=0"
        if gpu:
            used += ",gres/gpumem=7340032K,gres/gpuutil=61"
        step = {
            "JobID": f"{number}.batch", "State": "COMPLETED", "NTasks": "1", "NNodes": "1",
            "MaxRSS": "3276800K", "AllocTRES": job["AllocTRES"], "TRESUsageInMax": used,
            "TRESUsageInAve": used, "TRESUsageInTot": used,
            "TRESUsageOutTot": "fs/disk=1048576", "JobName": "batch", "NodeList": job["NodeList"],
            "TotalCPU": "10:12:33", "ConsumedEnergyRaw": "1234567",
        }  # fmt: skip
        for record in (job, step):
            yield "|".join(record.get(column, "") for column in columns)


def _jobstats(draw: random.Random) -> str:
    summary = {
        "total_time": 900,
        "nodes": {
            "cn0101": {
                "cpus": 16,
                "total_time": 9000.5,
                "used_memory": draw.randrange(2**35),
                "total_memory": 2**37,
                "gpu_utilization": {"0": draw.uniform(0, 100)},
                "gpu_used_memory": {"0": draw.randrange(2**35)},
                "gpu_total_memory": {"0": 2**36},
            }
        },
    }
    packed = gzip.compress(json.dumps(summary).encode())
    return f"JS1:{base64.b64encode(packed).decode()}"


def timed_import(columns: tuple[str, ...], jobs: int) -> tuple[float, float]:
    """Return the seconds of processor time for reading and for storing so many jobs."""
    lines = list(lines_of_sacct(columns, jobs))
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(str(Path(folder) / "store.sqlite"))
        begun = time.process_time()
        read = read_past_jobs(lines, "generated", "lab", ["slurm"], utc=True)
        middle = time.process_time()
        store.past_jobs.put(list(read.jobs.values()))
        store.usages.put(read.usages)
        ended = time.process_time()
        assert (len(read.jobs), read.broken) == (jobs, 0)
        store.close()
    return middle - begun, ended - middle


def timed_workloads(jobs: int) -> tuple[float, float]:
    """Return the seconds of processor time for making the workloads of so many jobs, and for
    reading the jobs for their ratios, which is part of it."""
    read = read_past_jobs(list(lines_of_sacct(FULL, jobs)), "generated", "lab", ["slurm"], utc=True)
    with tempfile.TemporaryDirectory() as folder:
        site_file = Path(folder) / "berth.toml"
        site_file.write_text(SITE)
        site = load_site(site_file)
        store = Store.open(str(Path(folder) / "store.sqlite"))
        store.past_jobs.put(list(read.jobs.values()))
        store.usages.put(read.usages)
        begun = time.process_time()
        platforms = platforms_for(site)
        make_workloads(store, site, forecaster=forecaster_for(site), platforms=platforms)
        middle = time.process_time()
        ratios = SiteRatios(platforms, at_site=["quartz"])
        for user, records in by_user(store):
            ratios.add(user, [PlacedJob(record, "quartz") for record in records])
        ended = time.process_time()
        store.close()
    return middle - begun, ended - middle


def main() -> None:
    """Print the times of both imports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=250_000)
    parser.add_argument("--workloads", action="store_true", help="make history workloads, too")
    options = parser.parse_args()
    jobs = options.jobs
    for name, columns in (("plain", PLAIN), ("full", FULL)):
        reading_s, storing_s = timed_import(columns, jobs)
        parts = f"read {reading_s:.1f}, stored {storing_s:.1f}"
        print(f"{name}: {reading_s + storing_s:.1f} s ({parts}), {jobs} jobs", flush=True)
    if options.workloads:
        making_s, ratios_s = timed_workloads(jobs)
        ratio = making_s / (making_s - ratios_s)
        print(f"workloads: {making_s:.1f} s, {ratio:.2f} times as long as without ratios")


if __name__ == "__main__":
    main()
