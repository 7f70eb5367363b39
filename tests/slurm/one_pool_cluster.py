"""A private Slurm that a replay can be compared with: one node whose cores are a pool."""

from __future__ import annotations

from pathlib import Path

from slurm_cluster import Cluster

CORES = 64

_LAYOUT = f"""\
NodeName=n1 NodeHostname={{host}} NodeAddr=127.0.0.1 Port={{n1}} CPUs={CORES} Boards=1 \
SocketsPerBoard=1 CoresPerSocket={CORES} ThreadsPerCore=1 RealMemory=64000
PartitionName=all Nodes=n1 Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00
"""


class OnePool(Cluster):
    """``backfill``: as Slurm's ``sched/backfill`` every second, else ``sched/builtin`` (FIFO)."""

    node_names = ("n1",)
    nodes = _LAYOUT

    def __init__(self, *, backfill: bool) -> None:
        scheduler = "backfill" if backfill else "builtin"

        def amend(files: dict[str, str]) -> dict[str, str]:
            text = files["slurm.conf"].replace("sched/backfill", f"sched/{scheduler}")
            text = text.replace("bf_interval=1", "bf_interval=1,bf_resolution=1")
            text = text.replace("CR_Core_Memory", "CR_Core").replace("JobSubmitPlugins=lua\n", "")
            text += f"SlurmctldLogFile={self.moments_file}\n"
            return {**files, "slurm.conf": text, "gres.conf": "AutoDetect=off\n"}

        super().__init__(amend=amend, min_job_age_s=3600)

    @property
    def moments_file(self) -> Path:
        """slurmctld's own log: its lines bear the time, to the millisecond."""
        return self.root / "log" / "moments.log"
