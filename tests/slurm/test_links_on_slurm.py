"""A calibration job on two nodes of a real Slurm, and what it finds between them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from slurm_cluster import Cluster

from berth.pilot.documents import read_json
from berth.pilot.network.links import LinkMeasurement
from berth.plugin.scheduler import NodeJob
from berth.plugin.slurm.scheduler import Slurm

BERTH = str(Path(sys.executable).with_name("berth"))


@pytest.mark.slurm
@pytest.mark.slow
def test_a_job_on_two_nodes_measures_what_connects_them(slurm: Cluster) -> None:
    """Without an MPI on the job's PATH: which of them fit a Slurm is not this test's matter."""
    folder = slurm.work / "links"
    folder.mkdir()
    into = folder / "cpu1_cpu2.json"
    words = [BERTH, "pilot", "link", "--nodes", "cpu1,cpu2", "--into", str(into)]
    words += ["--launcher", Slurm.pair_launcher or ""]
    tools = folder / "bin"
    tools.mkdir()
    (tools / "mpicc").write_text("#!/bin/sh\nexit 1\n")
    (tools / "mpicc").chmod(0o755)
    script = folder / "pair.sh"
    script.write_text(f"#!/bin/sh\nPATH={tools}:$PATH exec {shlex.join(words)}\n")
    job = NodeJob(
        name="calibrate-cpu1-cpu2",
        script=script,
        output=folder / "pair.log",
        queue="cpu",
        node="cpu1",
        time_limit_s=300,
        second_node="cpu2",
    )
    job_id = slurm.run(*Slurm().node_command(job)).stdout.split()[-1]
    assert slurm.wait_for_state(job_id, timeout_s=120) == "COMPLETED", job.output.read_text()
    assert slurm.job(job_id)["NodeList"] == "cpu[1-2]"
    found = read_json(into, LinkMeasurement)
    assert found.complete, found.problems
    assert found.without_mpi is not None
    assert found.interconnect is not None
    assert found.interconnect.nodes == ("cpu1", "cpu2")
    assert found.interconnect.latency_s is not None
    assert {one.ranks for one in found.interconnect.all_reduce} >= {2}
