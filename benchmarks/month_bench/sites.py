"""The sites: their kinds of node, and the site file by which Berth knows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CORES_PER_NODE, GPUS_PER_NODE, NODES = 64, 4, 256
MEAN_RATIO = 1.6
GPU_RATIO = 1.35
"""About how many times longer jobs take on the old GPUs."""
LEAST_RATIO, MOST_RATIO = 0.7, 3.0


class Kind(NamedTuple):
    """A kind of node, with a partition of its own of the same name."""

    name: str
    platform: str
    """Berth's catalogue has these in the order of their speeds here, as a calibrated site would."""
    slower: float
    """How many times longer than on the new kind a CPU program takes, in the middle of all."""
    spread: float = 0.0
    """Standard deviation of the log of that ratio between programs."""
    memory_gib: int = 256
    gres: str = ""


OLD_FOR_ALL = Kind("old", "rome-7742", MEAN_RATIO)
OLD = OLD_FOR_ALL._replace(spread=0.45)
NEW = Kind("new", "epyc-genoa-9654", 1.0)
HIGH_MEMORY = Kind("himem", "quartz", 1.15, 0.15, memory_gib=2048)
GPU_OLD = Kind("gpu-old", "p100-16gb", 1.5, 0.15, gres="gpu:p100")
GPU_NEW = Kind("gpu-new", "v100-pcie-32gb", 1.2, 0.15, gres="gpu:v100")
SCARCE = frozenset(("himem", "gpu-old", "gpu-new"))
"""Kinds that no ordinary CPU job needs."""
SITES = {
    "constant": (OLD_FOR_ALL, NEW),
    "varied": (OLD, NEW),
    "three": (OLD, NEW, HIGH_MEMORY),
    "five": (OLD, NEW, HIGH_MEMORY, GPU_OLD, GPU_NEW),
}
"""The kinds of each site, in the order of their nodes."""


def written(kinds: Sequence[Kind], folder: Path) -> Path:
    """Write the site file into ``folder`` and return its path."""
    text = f"""schema = "berth.site/1"
mode = "enforce"
[site]
name = "month"
reference_platform = "{kinds[0].platform}"
auto_partition = "auto"
[daemon]
socket = "{folder}/berth.sock"
store = "sqlite:///{folder}/store.db"
kill_switch = "{folder}/off"
scheduler_users = ["root"]
"""
    for kind in kinds:
        text += f"""[[candidates]]
name = "{kind.name}"
platform = "{kind.platform}"
partition = "{kind.name}"
cores_per_node = {CORES_PER_NODE}
memory_per_node = "{kind.memory_gib}G"
nodes = {NODES}
"""
        if kind.gres:
            text += f'gres = "{kind.gres}"\ngpus_per_node = {GPUS_PER_NODE}\n'
            text += "[candidates.translation]\ngpus = 1\n"
    (folder / "berth.toml").write_text(text)
    return folder / "berth.toml"
