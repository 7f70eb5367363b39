"""The first day of a site: shapes of jobs, of whose programs Berth knows nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType

from slurm_cluster import USER, Cluster, wait_until
from slurm_conf import node
from warm_berth import FRESH

_PARTITIONS = """\
PartitionName=old Nodes=old1,old2 Default=YES MaxTime=7-00:00:00 DefaultTime=01:00:00 \
DefMemPerCPU=2000
PartitionName=new Nodes=new1,new2 MaxTime=7-00:00:00 DefaultTime=01:00:00 DefMemPerCPU=2000
PartitionName=bigmem Nodes=big1 MaxTime=7-00:00:00 DefaultTime=01:00:00 DefMemPerCPU=8000
PartitionName=gpu Nodes=gpu1 MaxTime=2-00:00:00 DefaultTime=01:00:00 DefMemPerCPU=4000
PartitionName=mig Nodes=mig1 MaxTime=2-00:00:00 DefaultTime=01:00:00 DefMemPerCPU=4000
PartitionName=auto Nodes=old1,old2,new1,new2 MaxTime=7-00:00:00 DefaultTime=01:00:00 \
DefMemPerCPU=2000
"""
_LAYOUT = (
    "".join(node(f"old{n}", 32, 128_000, "Feature=haswell,avx2") for n in (1, 2))
    + "".join(node(f"new{n}", 64, 192_000, "Feature=genoa,avx512") for n in (1, 2))
    + node("big1", 64, 1_500_000, "Feature=genoa,bigmem")
    + node("gpu1", 64, 512_000, "Feature=a100 Gres=gpu:a100:4")
    + node("mig1", 64, 512_000, "Feature=mig Gres=gpu:1g.5gb:4,gpu:3g.20gb:2")
    + _PARTITIONS
)
_GRES = """\
AutoDetect=off
NodeName=gpu1 Name=gpu Type=a100 File={root}/dev/gpu[0-3]
NodeName=mig1 Name=gpu Type=1g.5gb File={root}/dev/mig[0-3]
NodeName=mig1 Name=gpu Type=3g.20gb File={root}/dev/mig[4-5]
"""
BATCH: dict[str, str] = {
    "one core": "-n1",
    "8 GiB": "-n1 --mem=8G",
    "16 threads": "-c16 --mem=32G",
    "32 threads": "-c32 --mem=60G",
    "64 threads": "-c64 --mem=100G",
    "2 nodes of 32 ranks": "-N2 --ntasks-per-node=32",
    "2 nodes of 64 ranks": "-N2 --ntasks-per-node=64",
    "64 ranks": "-n64",
    "150 GiB": "-c4 --mem=150G",
    "200 GiB": "-c4 --mem=200G",
    "1 TiB": "-c16 --mem=1000G",
    "a GPU": "--gres=gpu:1 -c8",
    "a GPU by --gpus": "--gpus=1 -c8 --mem=32G",
    "an A100": "--gres=gpu:a100:1 -c8",
    "2 A100 on a node": "--gpus-per-node=a100:2 -c16",
    "a MIG slice": "--gres=gpu:1g.5gb:1 -c8",
    "array on cores": "--array=1-10 -n1",
    "array on GPUs": "--array=1-4 --gres=gpu:1",
    "5 minutes": "-t5 -n1",
    "3 days": "-t3-0 -c8",
    "AVX-512": "-c8 --constraint=avx512",
    "nodes with A100": "-c8 --constraint=a100",
    "whole node": "--exclusive",
    "all memory": "-N1 --mem=0",
    "4 GiB by core": "-c32 --mem-per-cpu=4G",
    "two components": "-n1 : -n2",
    "2 GPUs for 12 hours": "--gpus=2 -c16 --mem=100G -t12:00:00",
}
PARTITIONS: tuple[str | None, ...] = ("auto", None)
_ENDED = ("COMPLETED", "FAILED", "RUNNING", "COMPLETING")


class DayOne(Cluster):
    """Two kinds of CPU nodes, one with much memory, whole GPUs and MIG slices."""

    node_names = ("old1", "old2", "new1", "new2", "big1", "gpu1", "mig1")
    nodes = _LAYOUT

    def __init__(
        self, *, conf: Sequence[str] = (), words: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """``conf``: lines added to slurm.conf; ``words``: added to a partition's line, by name."""

        def amend(files: dict[str, str]) -> dict[str, str]:
            text = files["slurm.conf"] + "".join(f"{line}\n" for line in conf)
            for name, more in words.items():
                text = re.sub(
                    rf"^(PartitionName={name} .*)$", rf"\g<1> {more}", text, flags=re.MULTILINE
                )
            return {**files, "slurm.conf": text, "gres.conf": _GRES.format(root=self.root)}

        super().__init__(amend=amend, min_job_age_s=3600)


@dataclass
class Row:
    """What became of one submission."""

    shape: str
    partition: str | None
    options: str
    refused: str = ""
    job_id: str = ""
    state: str = ""
    ran_in: str = ""
    asked_partitions: str = ""
    code: str = ""

    @property
    def failed(self) -> bool:
        """Refused, or it waits still."""
        return bool(self.refused) or (bool(self.job_id) and self.state not in _ENDED)


def submit_all(slurm: Cluster, shapes: dict[str, str]) -> list[Row]:
    """Submit each shape in both ways, wait until all have started, and return what was seen."""
    rows = [_submit(slurm, shape, part) for part in PARTITIONS for shape in shapes]
    waiting = [row for row in rows if row.job_id]

    def settled() -> bool:
        for row in waiting:
            if row.state not in _ENDED:
                record = slurm.job(row.job_id)
                row.state, row.ran_in = record["JobState"], record["Partition"]
        return all(row.state in _ENDED for row in waiting)

    with suppress(AssertionError):
        wait_until(settled, "all jobs have started", 60)
    slurm.cancel_everything()
    return rows


def _submit(slurm: Cluster, shape: str, partition: str | None) -> Row:
    options = BATCH[shape]
    where = [] if partition is None else ["-p", partition]
    words = [word for part in options.split(" : ") for word in (":", *where, *part.split())][1:]
    done = slurm.run("sbatch", *words, user=USER, stdin="#!/bin/sh\nexec true\n", check=False)
    found = re.search(r"Submitted batch job (\d+)", done.stdout)
    row = Row(shape, partition, options)
    if found is None:
        row.refused = done.stderr.strip().splitlines()[-1].rpartition("error: ")[2]
        return row
    row.job_id = found.group(1)
    record = slurm.job(row.job_id)
    row.asked_partitions = record["Partition"]
    stamp = re.search(r" code=(\S+)", record.get("AdminComment", ""))
    row.code = stamp.group(1) if stamp else ""
    return row


@contextmanager
def first_day(slurm: Cluster, fit: str) -> Iterator[None]:
    """Berth as a site has it on its first day: the site file of ``berth site init``, enforced."""
    site = slurm.work / "berth.toml"
    slurm.berth("site", "init", "--force", "--output", str(site))
    text = site.read_text().replace('mode = "shadow"', 'mode = "enforce"', 1)
    rules = f'[fit]\nmode = "{fit}"\nunnamed_partition = true\n'
    site.write_text(text + slurm.daemon_table(outcomes_refresh_s=2) + rules)
    slurm.berth_socket.unlink(missing_ok=True)
    slurm.launch("berth", *FRESH, "serve", "--site", str(site))
    try:
        wait_until(slurm.berth_socket.exists, "berth serve listens", 60)
        time.sleep(4)  # until it has read the cluster
        slurm.install_filter()
        yield
    finally:
        slurm.end("berth")


def takes(slurm: Cluster, options: str) -> str:
    """Return the partitions that take a job of these options, by ``sbatch --test-only``."""
    names = ("old", "new", "bigmem", "gpu", "mig")
    if " : " in options:
        return "old"
    return ",".join(
        name
        for name in names
        if slurm.run(
            "sbatch", "--test-only", "-p", name, "--comment=berth:off", *options.split(),
            user=USER, stdin="#!/bin/sh\ntrue\n", check=False,
        ).returncode == 0
    )  # fmt: skip
