"""The README's way from installation to the first job that is moved, word for word.

Two kinds of nodes, of which one is twice as fast by what was measured on them. Measuring takes
minutes and is ``test_fresh_site.py``'s matter: here its results lie where the jobs would have left
them, so that `berth site calibrate` learns from them at once.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import Cluster, cluster_or_skip, wait_until

from berth.pilot.documents import write_json
from berth.pilot.errors import BerthError
from berth.pilot.host import cpu_model
from berth.pilot.node import NodeMeasurement
from berth.plugin.daemon.client import ask
from berth.plugin.site import load_site
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware import platforms

README = Path(__file__).resolve().parents[2] / "README.md"
MOST_COMMANDS = 10
LONGEST_S = 240.0
"""Bounds each wait for a state; on an idle machine the whole test takes half a minute."""
FRESH_S = 10.0
"""The daemon asks for the state each second; older, the machine is too busy to be asked now."""
TIMES = {"s1": 2.0, "f1": 1.0}
"""Of every kernel, over those of the machine that the suite was counted on."""
LAYOUT = """\
NodeName=f1 NodeHostname={host} NodeAddr=127.0.0.1 Port={f1} CPUs=2 RealMemory=4000 Feature=new
NodeName=s1 NodeHostname={host} NodeAddr=127.0.0.1 Port={s1} CPUs=4 RealMemory=4000 Feature=old
PartitionName=fast Nodes=f1 MaxTime=1-00:00:00 DefaultTime=01:00:00
PartitionName=slow Nodes=s1 Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00
PartitionName=auto Nodes=f1,s1 MaxTime=1-00:00:00 DefaultTime=01:00:00
"""
PROGRAM = """\
#include <stdio.h>
static unsigned v[1 << 18];
int main(void) {
  unsigned long s = 0;
  for (int round = 0; round < 40; round++)
    for (int i = 0; i < 1 << 18; i++) {
      unsigned x = v[i] + (unsigned)i * 2654435761u;
      for (int k = 0; k < 8; k++) x = (x ^ x >> 16) * 0x85ebca6bu;
      v[i] = x; s += x;
    }
  printf("%lu\\n", s);
}
"""


class TwoSpeeds(Cluster):
    """A fast node and a slow one, by what is measured on them."""

    node_names = ("f1", "s1")
    nodes = LAYOUT


@pytest.fixture
def cluster() -> Iterator[TwoSpeeds]:
    with cluster_or_skip(TwoSpeeds) as running:
        yield running


def commands() -> list[str]:
    """Those of "Switch it on at a site", in their order."""
    section = README.read_text().split("## Switch it on at a site")[1].split("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


class Administrator:
    """Types the README's commands on a machine whose paths are in the cluster's folder."""

    def __init__(self, cluster: TwoSpeeds) -> None:
        self.cluster = cluster
        self.site = cluster.etc / "berth" / "berth.toml"
        self.path = f"{Path(sys.executable).parent}:{cluster.environment['PATH']}"

    def types(self, line: str) -> str:
        """What it printed; a line that ends with ``&`` goes on."""
        line = line.split(" #", maxsplit=1)[0].rstrip()
        line = line.replace("/etc/slurm/", f"{self.cluster.etc}/")
        line = line.replace("/etc/berth/", f"{self.cluster.etc}/berth/")
        if line.endswith("&"):
            words = shlex.split(line.removesuffix("&"))
            self.cluster.launch("berth", *words, env={"PATH": self.path})
            wait_until(self.cluster.berth_socket.exists, "the daemon listens", LONGEST_S)
            return ""
        env = {"PATH": self.path}
        done = self.cluster.run("sh", "-e", "-c", line, env=env, timeout_s=LONGEST_S)
        return done.stdout + done.stderr

    def daemon_has(self, mode: str) -> bool:
        """Whether the daemon is in this mode, knows the pilot's forecast and both places' state."""
        try:
            stats = ask(self.cluster.berth_socket, {"v": 1, "op": "stats"}, timeout_s=5)
        except BerthError:  # it was too busy to answer
            return False
        fresh = stats["state_age_s"] is not None and stats["state_age_s"] < FRESH_S
        places = {"fast", "slow"} <= set(stats["places"])
        return bool(stats["mode"] == mode and stats["forecasts"] and fresh and places)

    def moves_paths(self) -> None:
        """The daemon's own files, which would be the machine's."""
        self.site.write_text(self.site.read_text() + self.cluster.daemon_table())

    def has_measured(self) -> None:
        """What calibration's jobs would leave: the site's own kinds, by their nodes."""
        home = platforms.load()["epyc-genoa-vm"]
        for place in load_site(self.site).candidates:
            (node,) = (n for n in TIMES if n[0] == place.queue[0])
            platform = home.model_copy(
                update={"name": place.platform, "processor": cpu_model(), "cores": 2}
            )
            seconds = {
                name: profile.runtime.median_s * TIMES[node]
                for name, profile in list(suite_profiles().items())[::3]
                if profile.runtime is not None
            }
            made = NodeMeasurement(node=node, platform=platform, seconds=seconds, complete=True)
            write_json(self.site.parent / "calibration" / place.platform / f"{node}.json", made)


@pytest.mark.slurm
@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_the_commands_of_the_readme_move_the_first_job_to_the_faster_nodes(
    cluster: TwoSpeeds,
) -> None:
    lines = commands()
    assert len(lines) <= MOST_COMMANDS
    assert lines[0].startswith("pip install")  # the wheel's own tests do that
    (cluster.etc / "berth").mkdir()
    (cluster.work / "app.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-o", "app", "app.c"], cwd=cluster.work, check=True)
    (cluster.work / "job.sh").write_text("#!/bin/sh\n./app\n")
    admin, said = Administrator(cluster), {}
    for line in lines[1:]:
        said[line] = admin.types(line)
        if "berth site init" in line:
            admin.moves_paths()
            admin.has_measured()
        if "filter-config" in line:  # other tests run on the same cores
            config = cluster.etc / "berth" / "filter.conf"
            text = re.sub(r"(?m)^deadline_ms.*$", "", config.read_text())
            (cluster.etc / "filter.conf").write_text(f"{text}deadline_ms = 1000\n")
        if "pilot submit" in line:
            (pilot,) = re.findall(r"Pilot job (\d+)", said[line])
            assert cluster.wait_for_state(pilot, timeout_s=LONGEST_S) == "COMPLETED", said
            assert cluster.job(pilot)["Partition"] == "slow"
            wait_until(lambda: admin.daemon_has("shadow"), "the daemon knows the pilot", LONGEST_S)
        if "mode" in line and line.startswith("sed"):
            wait_until(lambda: admin.daemon_has("enforce"), "the daemon may act on it", LONGEST_S)
    calibrated = next(text for line, text in said.items() if "berth site calibrate" in line)
    assert "The filter can act on: slow, fast" in calibrated or "fast, slow" in calibrated
    submitted = said[lines[-1]]
    (job,) = re.findall(r"Submitted batch job (\d+)", submitted)
    assert cluster.job(job)["Partition"].split(",")[0] == "fast", submitted
    assert "fast" in submitted
    assert cluster.wait_for_state(job, timeout_s=LONGEST_S) == "COMPLETED"
