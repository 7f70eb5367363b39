"""What Slurm's commands say of a cluster of three nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_commands import FakeCommands

from berth.plugin.slurm.accounting import REMEMBERED_FIELDS
from berth.plugin.slurm.sacct import ALL_COLUMNS

PARTITIONS = """\
PartitionName=cpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES QoS=N/A \
DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=2-00:00:00 Nodes=cpu[1-2] State=UP TotalNodes=2
PartitionName=gpu AllowGroups=ALL AllowAccounts=physics,chemistry AllowQos=high Default=NO \
DefaultTime=NONE MaxTime=UNLIMITED Nodes=gpu1 State=UP TotalNodes=1
PartitionName=old Default=NO Nodes=gpu1 State=DRAIN
"""
NODES = """\
NodeName=cpu1 Arch=x86_64 CoresPerSocket=16  CPUAlloc=8 CPUEfctv=32 CPUTot=32 CPULoad=0.04 \
AvailableFeatures=rome,ib ActiveFeatures=rome,ib Gres=(null) GresDrain=N/A GresUsed=gpu:0 \
NodeAddr=127.0.0.1 Version=22.05.8 OS=Linux 6.1 #1 SMP x=y RealMemory=128000 AllocMem=0 \
Sockets=2 Boards=1 State=MIXED ThreadsPerCore=1 Partitions=cpu  CfgTRES=cpu=32,mem=125G AllocTRES=
NodeName=cpu2 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUTot=128 AvailableFeatures=rome,ib \
ActiveFeatures=rome,ib Gres=(null) RealMemory=256000 Sockets=2 State=IDLE+DRAIN ThreadsPerCore=2 \
Partitions=cpu Reason=State=IDLE Partitions=gpu [root@2026-01-01T00:00:00]
NodeName=gpu1 Arch=x86_64 CoresPerSocket=32 CPUAlloc=20 CPUEfctv=128 CPUTot=128 \
ActiveFeatures=amd,h100 Gres=gpu:h100:4(S:0-1),shard:8 GresUsed=gpu:h100:1(IDX:0,2),shard:0 \
RealMemory=512000 Sockets=2 State=ALLOCATED ThreadsPerCore=2 Partitions=gpu,old
"""


def accounted(job: str, state: str = "COMPLETED", **fields: object) -> str:
    """A line of ``sacct`` as Berth asks for it (22.05.8): a job, or a step, that ran a minute."""
    told = {
        "JobID": job,
        "JobIDRaw": job,
        "State": state,
        "Partition": "" if "." in job else "cpu",
        "ElapsedRaw": 61,
        "NodeList": "cpu1",
        "User": "" if "." in job else "alice",
        "Submit": "2026-11-21T18:00:00",
        "Start": "2026-11-21T18:00:10",
        "End": "2026-11-21T18:01:11",
        "ExitCode": "0:0",
        "NNodes": 1,
        "NTasks": 1 if "." in job else "",
        "AllocCPUS": 4,
        "AllocTRES": "billing=4,cpu=4,gres/gpu=2,gres/gpu:h200=2,mem=1G,node=1",
        "TimelimitRaw": "" if "." in job else "60",
        "ConsumedEnergyRaw": 0,
        **fields,
    }
    return "@BAR@".join(str(told.get(name, "")) for name in ALL_COLUMNS) + "\n"


def remembered(job: str, state: str = "COMPLETED", **fields: object) -> str:
    """A job of ``squeue --Format`` as Berth asks for it (22.05.8), as ``accounted`` is."""
    told = {
        "JobArrayID": job,
        "JobID": job,
        "State": state,
        "Partition": "cpu",
        "TimeUsed": "1:01",
        "NodeList": "cpu1",
        "UserName": "alice",
        "SubmitTime": "2026-11-21T18:00:00",
        "StartTime": "2026-11-21T18:00:10",
        "EndTime": "2026-11-21T18:01:11",
        "exit_code": 0,
        "NumNodes": 1,
        "NumCPUs": 4,
        "tres-alloc": "cpu=4,node=1,gres/gpu=2",
        "tres-per-node": "N/A",
        "TimeLimit": "1:00:00",
        **fields,
    }
    return "".join(f"{told.get(name, '')}@BAR@" for name in REMEMBERED_FIELDS) + "\n"


WAITING = """\
cpu|Resources
cpu,gpu|Priority
cpu|JobHeldUser
gpu|Dependency
gpu|BeginTime
cpu|AssocGrpCpuLimit
"""
"""Two that wait for their turn, and four that wait for something else."""


def recorded_slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    """Slurm's commands on PATH, of the cluster above."""
    made = FakeCommands(folder / "bin")
    made.on_path(monkeypatch)
    made.says("partition", PARTITIONS)
    made.says("node", NODES)
    made.says("squeue", WAITING)
    made.says("version", "slurm 24.11.5\n")
    made.says("config", "Configuration data\nClusterName             = lab\n")
    return made
