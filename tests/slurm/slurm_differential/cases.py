"""Every job that Berth once broke, by name: submitted on each run, with ``berth:off`` and without.

``world`` names where it broke; ``to_gpu`` says whether Berth is to move it to a GPU (None: either).
A case is never removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from differential.cases import Broken, cases
from slurm_differential.pairs import SlurmAsk
from slurm_differential.worlds import World

LONG_EXCLUDE = "--exclude=cpu1," + ",".join(["cpu1"] * 250)
"""More than 1,024 characters."""
LATIN_1 = b"caf\xe9 berth:off".decode("utf-8", "surrogateescape")

KEEPING = (
    "translation = { gpus = 1, cpus_per_gpu = 4 }",
    "translation = { gpus = 1, cpus_per_gpu = 16, keep_tasks = true }",
)
"""GPU places where the tasks stay and the cores grow."""

PLAIN = World(
    "plain", site=(('gres = "gpu:h200"', 'features = ["amd", "h200"]\ngres = "gpu:h200"'),)
)
KEEP = World("keep-tasks", site=(KEEPING,))
LIMITS = World(
    "limits",
    conf=("EnforcePartLimits=ALL",),
    partitions=(
        ("gpu", "MaxMemPerNode=64000 MaxCPUsPerNode=20 MaxNodes=1 MaxTime=06:00:00"),
        ("reserved", "MaxMemPerCPU=4000 MinNodes=1 DefMemPerCPU=1000"),
    ),
)
MANY_NODES = World(
    "min-nodes",
    conf=("EnforcePartLimits=ANY",),
    partitions=(("gpu", "MinNodes=2"), ("cpu", "MaxNodes=1 MaxCPUsPerNode=20")),
)
ACCOUNTS = World(
    "accounts",
    conf=("EnforcePartLimits=ALL",),
    partitions=(("gpu", "QOS=tight"),),
    qualities=("tight",),
    accounting=(
        ("add", "account", "free"),
        ("add", "account", "narrow"),
        ("add", "account", "poor", "GrpTRES=cpu=3"),
        ("add", "account", "small", "parent=poor"),
        ("add", "qos", "long", "MaxWall=20"),
        ("modify", "qos", "tight", "set", "flags=DenyOnLimit", "MaxTRESPerJob=cpu=4,node=1"),
        ("add", "user", "games", "account=free", "qos=normal,long"),
        ("add", "user", "games", "account=narrow", "partition=auto"),
        ("add", "user", "games", "account=small"),
        ("add", "account", "nogpu", "MaxTRESPerJob=gres/gpu=0"),
        ("add", "user", "games", "account=nogpu"),
        ("add", "account", "brief", "MaxWall=30"),
        ("add", "user", "games", "account=brief"),
    ),
)
OVERLAP = World(
    "overlap",
    conf=(
        "PartitionName=all Nodes=cpu1,cpu2,gpu1 MaxTime=1-00:00:00 DefaultTime=00:20:00 "
        "DefMemPerCPU=1000",
        "PartitionName=whole Nodes=cpu1,gpu1 OverSubscribe=EXCLUSIVE MaxTime=1-00:00:00",
    ),
    site=(
        ('partition = "gpu"', 'partition = "all"\nconstraint = "h200"'),
        ('partition = "reserved"', 'partition = "whole"'),
    ),
)
"""Partitions over the same nodes; the GPUs by a feature, and by whole nodes."""


def _reserving(files: dict[str, str]) -> dict[str, str]:
    words = " CoreSpecCount=8 MemSpecLimit=300000"
    text = files["slurm.conf"].replace("Feature=amd,h200", f"Feature=amd,h200{words}")
    return {**files, "slurm.conf": text}


RESERVED = World("reserved-for-the-system", edit_files=_reserving)
"""Of 64 cores and 512,000 MB of the GPU node jobs get 56 and 212,000; the site file names all."""
WORLDS = (PLAIN, KEEP, LIMITS, MANY_NODES, OVERLAP, RESERVED, ACCOUNTS)


@dataclass(frozen=True)
class Case(Broken[World]):
    """As a user submits it to Slurm."""

    script: str = "#!/bin/sh\nexec true\n"
    refused: str | None = None
    """What later versions of Slurm say to it; None: every version takes it."""

    @property
    def ask(self) -> SlurmAsk:
        return SlurmAsk(("-p", "auto", *self.words), workload=self.workload, script=self.script)


CASES = (
    *cases(
        Case,
        KEEP,
        ("V1 tasks per node on a place of one node", "-n4 --ntasks-per-node=2", False),
        ("V1 tasks per node that fit", "-n2 --ntasks-per-node=2", True),
        ("V1 tasks per node by -N", "-N2 --ntasks-per-node=1", False),
        ("V3 40G a core on more cores", "-n4 --mem-per-cpu=40G", True),
        ("V3 20G a core on more cores", "-n4 --mem-per-cpu=20G", True),
        ("V3 a core's memory with whole nodes", "--exclusive --mem-per-cpu=2000", True),
        ("V4 mincpus beyond the task", "--mincpus=40", False),
        ("V4 mincpus and tasks", "-n2 --mincpus=20", False),
        ("overcommit", "-n4 --overcommit", None),
        ("overcommit of cores, which Slurm 24.11 never starts", "-n4 -c2 --overcommit", False),
        ("tasks of a socket", "-n4 --ntasks-per-socket=2", False),
        ("tasks of a core", "-n4 --ntasks-per-core=1", False),
        ("two tasks of a core, which Slurm 26.05 has no GPUs for", "-n4 --ntasks-per-core=2", None),
        ("several nodes side by side", "-n4 -N2 --contiguous", None),
    ),
    *cases(
        Case,
        PLAIN,
        ("V2 excluded nodes over 1,024 characters", LONG_EXCLUDE, False),
        ("V4 preferred features elsewhere", "--prefer=avx2", False),
        ("V4 preferred features there", "--prefer=h200", True),
        ("V8 --gpus-per-node=0", "--gpus-per-node=0", None),
        ("V8 --gpus=0", "--gpus=0", None),
        ("V8 --gpus-per-task=0", "--gpus-per-task=0 -n2", None),
        ("V8 --gres=none", "--gres=none", False),
        ("a deadline", "--deadline=now+40minutes -t 30", False),
        ("V8 mincpus", "--mincpus=8", False),
        ("burst buffer", "--bb=x", False),
        ("network", "--network=x", False),
        ("bound to sockets", "--gres-flags=enforce-binding", False),
        ("nodes from two to two", "-N2-2 -n4", False),
        ("nodes from one to two", "-N1-2 -n4", True),
        ("whole nodes", "--exclusive", True),
        ("all memory", "--mem=0", True),
        ("a layout of nodes", "-B 1:2:1", False),
        ("an array", "--array=0-2", True),
        ("no time limit", "--time=0", None),
    ),
    Case("V2 opt-out beside Latin-1", PLAIN, (f"--comment={LATIN_1}",), False),
    Case("V8 --gres=none in the script", PLAIN, (), False,
         script="#!/bin/sh\n#SBATCH --gres=none\nexec true\n"),
    Case("a deadline in the script", PLAIN, ("-t", "30"), False,
         script="#!/bin/sh\n#SBATCH --deadline=now+40minutes\nexec true\n"),
    *cases(
        Case,
        LIMITS,
        ("V5 within the limits", "-n4", True),
        ("V5 MaxMemPerNode", "--mem=100G", False),
        ("V5 MaxMemPerNode by core", "-n4 --mem-per-cpu=20G", False),
        ("V5 MaxCPUsPerNode", "--mincpus=30", False),
        ("V5 whole nodes over MaxCPUsPerNode", "--exclusive", False),
        ("V5 MaxNodes below the range", "-N1-2", False),
        ("V5 nodes that one MCS label has alone", "-n30 --exclusive=mcs", False),
        ("V5 MaxTime", "-t 08:00:00", False),
        ("all memory over MaxMemPerNode", "-n30 --mem=0", False),
        # Its prediction is for nodes that cannot hold so many tasks: it goes where it fits.
        ("tasks of each node more than its cores", "-N1-2 --ntasks-per-node=40", None),
        ("tasks per node over the limits, fewer in all",
         "-n2 --mem-per-cpu=4G --ntasks-per-node=40", False),
        ("more tasks of a socket than cores", "--mem=8G --ntasks-per-socket=8", False),
    ),
    *cases(
        Case,
        MANY_NODES,
        ("V5 MinNodes without -N", "-n4", None),
        ("tasks per node that no node of the place holds", "-n4 --ntasks-per-node=40", False),
        ("V5 MaxNodes without -N", "-n80", None),
        ("V5 MaxCPUsPerNode on cores", "-n30", None),
        ("spread over more nodes than MaxNodes", "-n4 -c2 --spread-job", False),
    ),
    *cases(
        Case,
        OVERLAP,
        ("a least time over the default of the place", "-c4 --time-min=30", True),
        ("a least time below it", "-c4 --time-min=10", True),
        ("a least time and a limit", "-c4 --time-min=30 -t 40", True),
    ),
    *cases(
        Case,
        RESERVED,
        ("memory of the node that jobs do not get", "--mem=220G", False),
        ("memory that they get", "--mem=200G", True),
        ("cores of the node that jobs do not get", "--mincpus=60", False),
    ),
    Case("no time limit, beside a partition with one", OVERLAP, ("-n1", "--time=0"), None),
    Case("a core's memory in a partition of whole nodes", OVERLAP, ("-n4", "--mem-per-cpu=64G"),
         None, workload="hopper"),
    *cases(
        Case,
        ACCOUNTS,
        ("V6 within all limits", "-A free", True),
        ("V6 an association for auto alone", "-A narrow", False),
        ("V6 GrpTRES of an account above", "-A small -n2", None),
        ("V6 no GPU by MaxTRESPerJob", "-A nogpu", None),
        ("V6 MaxWall of the account", "-A brief -t 20", True),
        ("V6 over the partition's QOS", "-A free --mincpus=10", None),
        ("V6 MaxWall of the QOS", "-A free --qos=long -t 15", None),
        ("V6 the default account", "", None),
    ),
    Case("cores of a GPU that is not asked for", ACCOUNTS, ("--cpus-per-gpu=2",),
         refused="did not request any GPU"),
)  # fmt: skip
