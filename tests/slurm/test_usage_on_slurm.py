"""On a real Slurm: its Epilog and TaskEpilog tell what jobs used, and no node is ever drained.

This machine's control groups are not Slurm's, so each job writes the files of its own.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_trees import STATS
from other_users import PYTHON
from slurm_cluster import OTHER_ROOT, Cluster, cluster_or_skip, wait_until

from berth.pilot.usage import at_job_end
from berth.pilot.usage.line import UsageLine, parse_line
from berth.plugin.cli.pilot.usage import script_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(OTHER_ROOT is not None, reason="the nodes' scripts are of this root"),
]
FOLDER = Path(at_job_end.__file__).resolve().parent
JOBS = 20
MOST_MS = 5_000
"""How long a job's end may take on a machine that runs other tests beside."""


class Nodes(Cluster):
    """A cluster whose nodes run Berth's script at each job's end: as root, and as the user."""

    def __init__(self) -> None:
        super().__init__(amend=self._with_epilogs)
        self.spools = {kind: self.root / f"spool-{kind}" for kind in ("epilog", "task")}
        self.groups = self.root / "cg"

    def _with_epilogs(self, files: dict[str, str]) -> dict[str, str]:
        scope = self.groups / "system.slice" / "slurmstepd.scope"
        scope.mkdir(parents=True, exist_ok=True)
        (self.groups / "cgroup.controllers").write_text("cpu io memory\n")
        scope.chmod(0o1777)
        copy = shutil.copytree(FOLDER, self.root / "usage", dirs_exist_ok=True)
        lines = []
        for kind, key in (("epilog", "Epilog"), ("task", "TaskEpilog")):
            spool, script = self.spools[kind], self.root / f"usage-{kind}"
            spool.mkdir(exist_ok=True)
            spool.chmod(0o1733)
            set_up = f"export BERTH_USAGE_CGROUPS={self.groups} BERTH_USAGE_DEADLINE_MS={MOST_MS}\n"
            text = script_text(spool).replace("run=", f"{set_up}run=", 1)
            # A checkout may be closed to the jobs' user: a Python and a copy that all may read.
            text = text.replace(sys.executable, PYTHON).replace(str(FOLDER), str(copy))
            script.write_text(text)
            script.chmod(0o755)
            lines.append(f"{key}={script}\n")
        return {**files, "slurm.conf": files["slurm.conf"] + "".join(lines)}

    def lines(self, kind: str) -> dict[str, UsageLine]:
        """What was left, by job id."""
        files = self.spools[kind].glob("*.usage")
        read = [parse_line(file.read_text(), file.name) for file in files]
        return {line.array_task or line.job: line for line in read}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with cluster_or_skip(Nodes) as running:
        yield running


def job_script(nodes: Nodes) -> str:
    """A job that has used what STATS say."""
    group = f"{nodes.groups}/system.slice/slurmstepd.scope/job_$SLURM_JOB_ID"
    files = "".join(f"cat > {group}/{name} <<'E'\n{text}E\n" for name, text in STATS.items())
    return f"#!/bin/sh\nmkdir -p {group}\n{files}"


def test_each_job_is_told_of_once_by_root_and_once_by_its_user(nodes: Nodes) -> None:
    jobs = [str(nodes.sbatch("-p", "cpu", script=job_script(nodes)).id) for _ in range(JOBS)]
    array = str(nodes.sbatch("-p", "cpu", "--array=3", script=job_script(nodes)).id)
    gpu = str(nodes.sbatch("-p", "gpu", "--gres=gpu:1", script=job_script(nodes)).id)
    told_of = {*jobs, array, gpu}
    wait_until(lambda: told_of <= set(nodes.lines("epilog")), "all Epilogs have run", 120)
    by_root = {job: line for job, line in nodes.lines("epilog").items() if job in told_of}
    named = {*jobs, f"{array}_3", gpu}
    by_task = {job: line for job, line in nodes.lines("task").items() if job in named}
    assert set(by_task) == named
    for line in (*by_root.values(), *by_task.values()):
        assert (line.memory_peak_bytes, line.cpu_usage_usec) == (123456789, 61_000_000)
    assert {file.stat().st_uid for file in nodes.spools["epilog"].iterdir()} == {0}
    assert 0 not in {file.stat().st_uid for file in nodes.spools["task"].glob("*.usage")}
    for lines in (by_root, by_task):
        lacking = {job for job, line in lines.items() if line.lacks}
        assert lacking == {gpu}, "this machine has no NVML"
    stats = [file.stat() for folder in nodes.spools.values() for file in folder.iterdir()]
    assert {oct(stat.st_mode & 0o777) for stat in stats} == {"0o644"}


def test_no_node_is_drained_where_nothing_can_be_read_or_written(nodes: Nodes) -> None:
    """Without Berth, without a spool, without a control group; the jobs succeed."""
    script = nodes.root / "usage-epilog"
    whole = script.read_text()
    for broken in (
        whole.replace("at_job_end", "not_there"),
        whole.replace("-I -S -c", "--no-such-option"),
        whole.replace(str(nodes.spools["epilog"]), "/proc/none"),
        whole.replace(str(nodes.groups), str(nodes.root / "no-groups")),
    ):
        script.write_text(broken)
        job = nodes.sbatch("-p", "cpu")
        assert nodes.wait_for_state(job.id) == "COMPLETED"
    script.write_text(whole)
    time.sleep(0.5)
    states = nodes.run("sinfo", "-h", "-o", "%T").stdout.lower()
    assert "drain" not in states
    assert "down" not in states
