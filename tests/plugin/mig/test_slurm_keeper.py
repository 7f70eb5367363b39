"""What Slurm's part refuses before a GPU is touched, by what scontrol and the files say."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_nvml import FakeFleet

from berth.pilot.errors import BerthError
from berth.plugin.mig.apply import Applier
from berth.plugin.mig.errors import PlanRefused
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.target import ApplyTarget
from berth.plugin.slurm.mig.keeper import NodeFiles, SlurmKeeper
from berth.plugin.slurm.mig.publishing import CommandRestarter
from berth.plugin.slurm.mig.slots import GresSlot, gres_conf
from berth.policies.mig import Layout

HALVES = ApplyTarget({"0": Layout.parse("3g.40gb@0 3g.40gb@4")})


def applier(
    nvml: Nvml, folder: Path, *, gres_lines: str = "", used: str = "", nodes: str = "n1"
) -> Applier:
    """An applier of the node n1, of whose GPUs jobs hold the numbers ``used``."""
    (folder / "slurm.conf").write_text(f"NodeName={nodes} Gres=gpu:h100:1\n")
    (folder / "gres.conf").write_text(gres_lines)
    files = NodeFiles("n1", folder / "slurm.conf", folder / "gres.conf", f"{folder}/off{{number}}")

    def command(words: list[str]) -> str:
        if words[0] == "squeue":
            return ""
        return f"NodeName=n1 State=IDLE Gres=gpu:h100:1 GresUsed=gpu:h100:1(IDX:{used or 'N/A'})\n"

    keeper = SlurmKeeper(files, CommandRestarter((), ()), command=command)
    return Applier(nvml, keeper, folder / "state")


def test_without_device_files_for_the_padding_slurmd_would_not_start(
    nvml: Nvml, fleet: FakeFleet, tmp_path: Path
) -> None:
    fleet.reset("h100-80")
    with pytest.raises(PlanRefused, match=r"off\d is missing, without which slurmd") as refused:
        applier(nvml, tmp_path).apply(HALVES)
    assert "systemd-tmpfiles --create" in str(refused.value.hint)
    assert fleet.seen() == ()


@pytest.mark.parametrize(
    "line",
    ["NodeName=n2 Name=gpu File=/dev/nvidia0", "nodename=n[1-2] AutoDetect=nvml",
     "NodeName=n1 Name=nic File=/dev/nic0"],
)  # fmt: skip
def test_lines_that_are_not_of_this_nodes_gpus_are_not_lost(
    nvml: Nvml, fleet: FakeFleet, tmp_path: Path, line: str
) -> None:
    """Where gres_conf names the file of all nodes."""
    fleet.reset("h100-80")
    own = "# ours\nNodeName=n1 AutoDetect=nvml Name=gpu\nName=gpu Type=h100 File=/dev/nvidia0\n"
    with pytest.raises(PlanRefused, match="would lose its line") as refused:
        applier(nvml, tmp_path, gres_lines=f"{own}{line}\n").apply(HALVES)
    assert line in refused.value.message
    with pytest.raises(PlanRefused, match="without which slurmd"):
        applier(nvml, tmp_path, gres_lines=own).apply(HALVES)
    with pytest.raises(BerthError, match="no line NodeName=n1"):
        applier(nvml, tmp_path, nodes="n[1-4]").apply(HALVES)


def test_a_gpu_that_a_job_holds_is_not_switched_to_mig(
    nvml: Nvml, fleet: FakeFleet, tmp_path: Path
) -> None:
    """The job may not have begun to use it, so the driver would switch."""
    fleet.reset("h100-80", mig=False)
    (gpu,) = nvml.read()
    with pytest.raises(PlanRefused, match="which ones only Slurm knows"):
        applier(nvml, tmp_path, used="0").apply(HALVES, enable_mig=True)
    slots = (GresSlot("h100", gpu.uuid), *[GresSlot("off1")] * 6)
    lines = gres_conf("n1", slots, lambda _: ("/dev/nvidia0",), str)
    with pytest.raises(PlanRefused, match="a running job holds the whole GPU"):
        applier(nvml, tmp_path, gres_lines=lines, used="0").apply(HALVES, enable_mig=True)
    assert not nvml.read()[0].enabled
