"""The configuration files of the tests' private Slurm cluster."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

NO_OP_FILTER = """\
function slurm_job_submit(job_desc, part_list, submit_uid) return slurm.SUCCESS end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""

NODE_NAMES = ("cpu1", "cpu2", "gpu1", "mig1")


def node(
    name: str, cores: int, memory_mb: int, words: str = "", *, sockets: int = 2, threads: int = 1
) -> str:
    """A node's line in slurm.conf, on this host; ``threads`` of each core."""
    return (
        f"NodeName={name} NodeHostname={{host}} NodeAddr=127.0.0.1 Port={{{name}}} "
        f"CPUs={cores * threads} Boards=1 SocketsPerBoard={sockets} "
        f"CoresPerSocket={cores // sockets} ThreadsPerCore={threads} RealMemory={memory_mb} "
        f"{words}\n"
    )


_PARTITIONS = """\
PartitionName=cpu Nodes=cpu1,cpu2 Default=YES MaxTime=2-00:00:00 DefaultTime=01:00:00 \
DefMemPerCPU=1000
PartitionName=auto Nodes=cpu1,cpu2 MaxTime=2-00:00:00 DefaultTime=01:00:00 DefMemPerCPU=1000
PartitionName=gpu Nodes=gpu1 MaxTime=1-00:00:00 DefaultTime=01:00:00 DefMemPerCPU=2000
PartitionName=mig Nodes=mig1 MaxTime=12:00:00 DefaultTime=00:30:00 DefMemPerCPU=2000
PartitionName=reserved Nodes=gpu1 AllowGroups={group} MaxTime=1-00:00:00 DefaultTime=01:00:00
PartitionName=closed Nodes=gpu1 State=INACTIVE DefaultTime=01:00:00
"""

NODES = (
    node("cpu1", 32, 128_000, "Feature=intel,avx512")
    + node("cpu2", 64, 256_000, "Feature=amd,avx2")
    + node("gpu1", 64, 512_000, "Feature=amd,h200 Gres=gpu:h200:4")
    + node("mig1", 32, 256_000, "Feature=intel,mig Gres=gpu:1g.10gb:7")
    + _PARTITIONS
)

_CONF = """\
ClusterName=berthtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/run/munge.sock
StateSaveLocation={state}
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd.%n.pid
SlurmctldDebug=info
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
GresTypes=gpu
InactiveLimit=0
KillWait=1
MinJobAge={min_job_age_s}
MaxJobCount=50000
MessageTimeout=10
SlurmctldTimeout=30
SlurmdTimeout=60
JobSubmitPlugins=lua
"""

_GRES = """\
AutoDetect=off
NodeName=gpu1 Name=gpu Type=h200 File={root}/dev/gpu[0-3]
NodeName=mig1 Name=gpu Type=1g.10gb File={root}/dev/mig[0-6]
"""


def configuration(
    root: Path,
    state: Path,
    ports: Mapping[str, int],
    *,
    group: str,
    min_job_age_s: int,
    version: str,
    nodes: str = NODES,
) -> dict[str, str]:
    """File name -> text. ``ports`` of ``ctld`` and each node; ``group`` may use ``reserved``.

    ``nodes``: the lines of nodes and partitions.
    """
    host = socket.gethostname().partition(".")[0]
    main = _CONF.format(host=host, root=root, state=state, min_job_age_s=min_job_age_s, **ports)
    old = re.search(r"\b2[0-2]\.", version) is not None
    return {
        "slurm.conf": main + nodes.format(host=host, group=group, **ports),
        "gres.conf": _GRES.format(root=root),
        "cgroup.conf": "CgroupAutomount=no\n" if old else "CgroupPlugin=disabled\n",
    }
