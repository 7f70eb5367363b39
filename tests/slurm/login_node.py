"""A login node of the tests' cluster, whose sbatch, srun and salloc load the client filter."""

from __future__ import annotations

import shutil

from slurm_cluster import Cluster

from berth.plugin.slurm.filter import CLIENT_FILTER_PATH


def login_node(slurm: Cluster) -> dict[str, str]:
    """Make one; the environment of its users."""
    folder = slurm.root / "login"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(slurm.etc, folder)
    with (folder / "slurm.conf").open("a") as file:
        file.write("CliFilterPlugins=lua\n")
    shutil.copy(CLIENT_FILTER_PATH, folder / "cli_filter.lua")
    return {"SLURM_CONF": str(folder / "slurm.conf")}
