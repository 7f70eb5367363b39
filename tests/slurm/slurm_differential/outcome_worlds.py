"""Sites for jobs that run to their end: places whose nodes, memory defaults and sharing differ.

``auto`` gives 200 MB a core; each place that Berth may choose gives less, or whole nodes, or small
nodes, or hyperthreads, or less time, or shares its cores, or is interrupted, or dear. ``auto``
holds plain nodes and, where these are taken, hyperthreaded ones. For each place there is a workload
that is fastest there (``FASTEST``); others need more memory than ``auto`` gives, or use whatever
tasks and cores they are given (``FOLLOWING``).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from real_daemon import GIB, forecast, sure
from slurm_cluster import Cluster
from slurm_conf import node
from slurm_differential.worlds import World

from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval

AUTO_MEMORY_MB_PER_CPU = 200
"""What a job in ``auto`` holds that asks for no memory."""

_TOOLS = Path(__file__).with_name("job_tools")
_KINDS: dict[str, tuple[int, tuple[int, int, str], dict[str, int]]] = {
    "c": (4, (32, 128_000, "Feature=intel Weight=1"), {}),
    "w": (3, (64, 256_000, "MemSpecLimit=200000 Weight=50"), {}),
    "g": (3, (64, 256_000, "Gres=gpu:h200:4 Weight=100"), {}),
    "s": (3, (4, 16_000, ""), {"sockets": 1}),
    "h": (2, (32, 128_000, "Weight=200"), {"threads": 2}),
}
"""Of each kind of node, by its letter: how many, and what ``slurm_conf.node`` takes."""
_TIMES = "PriorityTier=3 MaxTime=2-00:00:00 DefaultTime=01:00:00"
_BEHIND = _TIMES.replace("Tier=3", "Tier=2")
"""Of ``auto``, whose jobs are never interrupted, and of ``scav``, whose jobs are."""
_PARTITIONS = f"""\
PartitionName=auto Nodes=c[1-4],g[1-3],h[1-2] {_BEHIND} PreemptMode=OFF \
DefMemPerCPU={AUTO_MEMORY_MB_PER_CPU} Default=YES
PartitionName=cpu Nodes=c[1-4] {_TIMES} DefMemPerCPU=100
PartitionName=gpu Nodes=g[1-3] {_TIMES} DefMemPerCPU=50
PartitionName=gpumem Nodes=g[1-3] {_TIMES} DefMemPerGPU=120
PartitionName=whole Nodes=w[1-3] {_TIMES} OverSubscribe=EXCLUSIVE
PartitionName=node Nodes=w[1-3] {_TIMES} DefMemPerNode=150
PartitionName=capped Nodes=c[1-4] {_TIMES} DefMemPerCPU=50 MaxMemPerCPU=250
PartitionName=small Nodes=s[1-3] {_TIMES} DefMemPerCPU=50
PartitionName=threads Nodes=h[1-2] {_TIMES} DefMemPerCPU=50
PartitionName=scav Nodes=w[1-3] {_BEHIND} DefMemPerCPU=50
PartitionName=shared Nodes=w[1-3] {_TIMES} DefMemPerCPU=50 OverSubscribe=FORCE:2
PartitionName=dear Nodes=w[1-3] {_TIMES} DefMemPerCPU=50 TRESBillingWeights="CPU=20.0"
PartitionName=short Nodes=w[1-3] PriorityTier=3 MaxTime=5 DefaultTime=1 DefMemPerCPU=50
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
LOSSES = {"scav": "may be interrupted", "shared": "shares its cores with other jobs"}
"""What a job loses in a partition that its record does not show."""
_PLATFORMS = {
    "cpu": "quartz",
    "gpu": "lassen-v100",
    "gpumem": "h200-141gb",
    "whole": "rome-7742",
    "node": "cascadelake-6248",
    "capped": "epyc-genoa-9654",
    "small": "skylake-8176",
    "threads": "broadwell-bdw",
    "scav": "i7-12700h",
    "shared": "i9-10940x",
    "dear": "i9-12900ks",
    "short": "epyc-genoa-vm",
}
"""Each place that Berth may choose is a partition; its platform by its name."""
_OF_AUTO = ("cpu", "capped", "gpu", "gpumem", "threads")
"""Places on nodes where a job in ``auto`` may start."""
SHORTER = 4
"""How many times faster a workload is at its fastest place than at these."""
_NODES = {
    **dict.fromkeys(("whole", "node", "scav", "shared", "dear", "short"), (3, 64, 250)),
    "small": (3, 4, 15),
    "threads": (2, 32, 125),
}
"""Nodes of a CPU place, cores and GiB of each as the site file says, which does not know that
Slurm keeps 200,000 MB for itself (``MemSpecLimit``); others have four of 32 cores and 125 GiB."""

_SITE = """\
schema = "berth.site/1"
mode = "enforce"

[site]
name = "outcomes"
reference_platform = "quartz"
reference_partition = "cpu"
auto_partition = "auto"

[policy.weights]
wait = 0

[daemon]
socket = "{{root}}/run/berth.sock"
store = "sqlite:///{{root}}/store/berth.db"
kill_switch = "{{root}}/run/off"
ruled_out = "{{root}}/run/ruled-out.json"
scheduler_users = ["root"]
state_refresh_s = 2
outcomes_refresh_s = 0

[coverage]
interactive = true
het = true

{candidates}"""
_CPU_PLACE = """\
[[candidates]]
name = "{name}"
platform = "{platform}"
partition = "{name}"
nodes = {nodes}
cores_per_node = {cores}
memory_per_node = "{memory}G"
features = {features}
"""
_GPU_PLACE = """\
[[candidates]]
name = "{name}"
platform = "{platform}"
partition = "{name}"
gres = "gpu:h200"
nodes = 3
cores_per_node = 64
memory_per_node = "250G"
gpus_per_node = 4
instruction_sets = []
architecture = "x86_64"
targets = ["cpu", "cuda"]
max_time = "2d"
default_time = "1h"
translation = {translation}
"""


def _site(translation: str) -> str:
    """The site file's text; ``translation``: of the GPU places."""
    places = []
    for name, platform in _PLATFORMS.items():
        nodes, cores, memory = _NODES.get(name, (4, 32, 125))
        template = _GPU_PLACE if name.startswith("gpu") else _CPU_PLACE
        places.append(template.format(name=name, platform=platform, nodes=nodes, cores=cores,
                                      memory=memory, translation=translation,
                                      features='["intel"]' if nodes == 4 else "[]"))  # fmt: skip
    return _SITE.format(candidates="\n".join(places))


def _fastest(workload: str, place: str, memory_gib: float) -> Forecast:
    memory = Interval(memory_gib * GIB / 2, memory_gib * GIB * 0.7, memory_gib * GIB)
    times = {_PLATFORMS[other]: sure(_seconds(place, other)) for other in _PLATFORMS}
    return forecast(workload, times, memory=memory)


def _seconds(fastest: str, place: str) -> int:
    return 10 if place == fastest else 10 * SHORTER if place in _OF_AUTO else 100


def is_slower_than_staying(workload: str, place: str) -> bool:
    """Whether a workload of ``FASTEST`` takes longer in a partition than on all nodes of auto."""
    fastest = next((name for name, its in FASTEST.items() if its == workload), None)
    if fastest is None or place not in _PLATFORMS:
        return False
    return _seconds(fastest, place) > max(_seconds(fastest, own) for own in _OF_AUTO)


FASTEST = {place: f"{place}app" for place in _PLATFORMS}
"""The workload that is fastest at each place, and needs next to no memory."""
FOLLOWING = "followinggpu"
"""The workload whose scripts use whatever tasks and cores they are given."""
FORECASTS = (
    *(_fastest(workload, place, 0.03) for place, workload in FASTEST.items()),
    *(_fastest(f"big{place}", place, 3.0) for place in ("cpu", "gpu", "whole", "node")),
    *(_fastest(f"mid{place}", place, 0.7) for place in ("cpu", "gpu", "small")),
    replace(_fastest(FOLLOWING, "gpu", 0.03), follows_shape=True),
)


class ManyPlaces(Cluster):
    """Fifteen nodes of five kinds."""

    node_names = tuple(f"{kind}{n + 1}" for kind in _KINDS for n in range(_KINDS[kind][0]))
    nodes = "".join(node(name, *_KINDS[name[0]][1], **_KINDS[name[0]][2]) for name in node_names)
    nodes += _PARTITIONS

    def _prepare(self) -> None:
        super()._prepare()
        shutil.copytree(_TOOLS, self.work / "job_tools")
        self.seen.mkdir()
        self.seen.chmod(0o1777)

    @property
    def seen(self) -> Path:
        """Where the tools of the jobs write down what each copy saw: a file for each job."""
        return self.work / "seen"


def _gathers_memory(files: dict[str, str]) -> dict[str, str]:
    """Jobs that hold more memory than they were given are killed, as where cgroups bound them."""
    root = files["gres.conf"].partition("File=")[2].partition("/dev/")[0]
    conf = files["slurm.conf"].replace(
        "JobAcctGatherType=jobacct_gather/none",
        "JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherParams=OverMemoryKill\n"
        "JobAcctGatherFrequency=task=1",
    )
    gres = f"AutoDetect=off\nNodeName=g[1-3] Name=gpu Type=h200 File={root}/dev/gpu[0-3]\n"
    return {**files, "slurm.conf": conf, "gres.conf": gres}


_BY_INIT = "{{ gpus = 1 }}"
_WITH_CORES = "{{ gpus = 1, cpus_per_gpu = 4 }}"
CLIENT = World(
    "outcomes",
    layout=ManyPlaces, edit_files=_gathers_memory, site_text=_site(_WITH_CORES),
    forecasts=FORECASTS,
)  # fmt: skip
NO_CLIENT = World(
    "outcomes-no-client-filter",
    conf=("EnforcePartLimits=ALL",), client=False,
    # What a site without the client filter says whose users' tools read both streams as one.
    site=(("[daemon]", '[messages]\nshow = "none"\n\n[daemon]'),),
    layout=ManyPlaces, edit_files=_gathers_memory, site_text=_site(_BY_INIT),
    forecasts=FORECASTS,
)  # fmt: skip
OUTCOME_WORLDS = (CLIENT, NO_CLIENT)
