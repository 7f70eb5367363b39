"""Workflow systems submit unchanged: they read the id, the job is placed, its results are right.

`make clients` puts them in an environment of their own; BERTH_TEST_CLIENTS names another one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from login_node import login_node
from real_daemon import by_time_alone, real_daemon
from slurm_cluster import OTHER_ROOT, Cluster

PROGRAMS = Path(__file__).with_name("clients")
CLIENTS = Path(
    os.environ.get("BERTH_TEST_CLIENTS", Path(__file__).parents[2] / ".venv" / "clients")
)
COMMENT = "berth:stream"
ACCOUNT = "root"
"""Clients run as root: a checkout may be closed to the users that other tests have."""
IN_BOTH_SETUPS = pytest.mark.parametrize(
    "set_up", ["with the client filter", pytest.param("without it", marks=pytest.mark.slow)]
)
pytestmark = pytest.mark.skipif(OTHER_ROOT is not None, reason="commands of this root only")


class LoginNode:
    """Where a client runs: a folder and the environment of its user."""

    def __init__(self, slurm: Cluster, environment: dict[str, str]) -> None:
        self.slurm = slurm
        self.folder = slurm.work / "client"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.folder.chmod(0o1777)
        # Snakemake takes SLURM_CONF out of its jobs' environment; other clusters have /etc/slurm.
        srun = self.folder / "bin" / "srun"
        srun.parent.mkdir()
        conf = environment.get("SLURM_CONF", slurm.environment["SLURM_CONF"])
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        self.environment = {
            **environment,
            "HOME": str(self.folder),
            "USER": "root",
            "PATH": f"{srun.parent}:{CLIENTS}/bin:{slurm.environment['PATH']}",
        }

    def run(self, *words: str, **environment: str) -> str:
        """What the client prints; fails where it does."""
        done = self.slurm.run(
            *("sh", "-c", 'cd "$0" && exec "$@"', str(self.folder), *words),
            env={**self.environment, **environment},
            check=False,
            timeout_s=200,
        )
        logs = [p.read_text(errors="replace")[-1500:] for p in self.folder.rglob("*[0-9].log")]
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{logs}"
        return done.stdout

    def python(self, program: str) -> Any:
        """The JSON that a program of ours prints on its last line."""
        interpreter = str(CLIENTS / "bin" / "python")
        printed = self.run(interpreter, str(PROGRAMS / program), str(self.folder), COMMENT, ACCOUNT)
        return json.loads(printed.splitlines()[-1])

    def placements(self) -> set[tuple[str, str]]:
        """Partition and action of all jobs that were submitted."""
        found = set()
        for job_id in self.slurm.run("squeue", "-h", "-a", "-t", "all", "-o", "%A").stdout.split():
            job = self.slurm.job(job_id)
            stamp = job.get("AdminComment", "")
            found.add((job["Partition"], "edit" if "action=edit" in stamp else stamp))
        return found


def require_client(name: str) -> None:
    if not (CLIENTS / "bin" / name).exists() and not any(CLIENTS.glob(f"lib/*/*/{name}")):
        pytest.skip(f"NOT TESTED WITH {name}: `make clients` installs it in {CLIENTS}")


def without_learning(site_file: str) -> str:
    """What clients start takes seconds, and is no evidence of what the forecasts speak of."""
    return f"{by_time_alone(site_file)}\n[learning]\nenabled = false\n"


@pytest.fixture(scope="module")
def placing_cluster(accounted_cluster: Cluster) -> Iterator[Cluster]:
    slurm = accounted_cluster
    slurm.install_filter()
    with real_daemon(slurm, amend=without_learning):
        yield slurm


@pytest.fixture
def node(placing_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[LoginNode]:
    with_filter = "without" not in request.node.name
    yield LoginNode(placing_cluster, login_node(placing_cluster) if with_filter else {})
    placing_cluster.cancel_everything()


@pytest.mark.slow
@IN_BOTH_SETUPS
def test_submitit(node: LoginNode, set_up: str) -> None:
    require_client("submitit")
    seen = node.python("submitit_client.py")
    assert seen["single"] == [["gpu", rank, 2, "4", 25] for rank in range(2)]
    assert seen["array"] == [
        [["gpu", rank, 2, "4", number**2] for rank in range(2)] for number in (1, 2)
    ]
    assert node.slurm.job(seen["id"])["JobState"] in ("COMPLETED", "COMPLETING", "RUNNING")


@pytest.mark.slow
@IN_BOTH_SETUPS
def test_reframe(node: LoginNode, set_up: str) -> None:
    require_client("reframe")
    printed = node.run(
        *("reframe", "-C", str(PROGRAMS / "reframe_settings.py")),
        *("-c", str(PROGRAMS / "reframe_check.py"), "-r", "--prefix", str(node.folder)),
        BERTH_TEST_ACCESS=f"-p auto -A {ACCOUNT} --comment={COMMENT}",
    )
    assert "Ran 1/1 test case(s) from 1 check(s) (0 failure(s)" in printed


@pytest.mark.slow
@IN_BOTH_SETUPS
def test_dask_jobqueue(node: LoginNode, set_up: str) -> None:
    require_client("dask_jobqueue")
    seen = node.python("dask_client.py")
    assert (seen["workers"], seen["threads"], seen["sum"]) == (4, [4], 285)
    assert seen["places"] == ["gpu"]
    assert all(job_id.isdigit() for job_id in seen["ids"])


@pytest.mark.slow
@IN_BOTH_SETUPS
def test_parsl(node: LoginNode, set_up: str) -> None:
    require_client("parsl")
    seen = node.python("parsl_client.py")
    assert [result[2] for result in seen["results"]] == [0, 1, 4, 9]
    assert {result[0] for result in seen["results"]} == {"gpu"}
    assert all(job_id.isdigit() for job_id in seen["ids"])


@pytest.mark.slow
@IN_BOTH_SETUPS
def test_snakemake(node: LoginNode, set_up: str) -> None:
    """It writes the comment itself: the workload is named in the environment."""
    require_client("snakemake")
    node.run(
        *("snakemake", "--snakefile", str(PROGRAMS / "Snakefile"), "--directory", str(node.folder)),
        *("--executor", "slurm", "--jobs", "2", "--latency-wait", "20"),
        *("--slurm-init-seconds-before-status-checks", "5", "--seconds-between-status-checks", "3"),
        *("--default-resources", "slurm_partition=auto", f"slurm_account={ACCOUNT}"),
        BERTH_WORKLOAD=COMMENT.removeprefix("berth:"),
    )
    assert (node.folder / "report.txt").read_text() == "wide gpu 4\nreport gpu 2\n"


@pytest.mark.slow
@pytest.mark.parametrize("set_up", ["without it"])
def test_the_rule_of_snakemake_names_the_workload(node: LoginNode, set_up: str) -> None:
    require_client("snakemake")
    node.run(
        *("snakemake", "--snakefile", str(PROGRAMS / "Snakefile.rules")),
        *("--directory", str(node.folder), "--executor", "slurm", "--jobs", "1"),
        *("--latency-wait", "20", "--slurm-init-seconds-before-status-checks", "5"),
        *("--default-resources", "slurm_partition=auto", f"slurm_account={ACCOUNT}"),
    )
    assert (node.folder / "stream.txt").read_text() == "gpu\n"


@pytest.mark.slow
@pytest.mark.parametrize("set_up", ["with the client filter", "without it, quiet"])
def test_batchtools(node: LoginNode, set_up: str) -> None:
    """It reads the fourth word of both streams: without the client filter its user wants quiet."""
    if shutil.which("Rscript") is None or not Path("/usr/lib/R/site-library/batchtools").exists():
        pytest.skip("NOT TESTED WITH batchtools: Debian's r-cran-batchtools is not here")
    quiet = {"BERTH_QUIET": "1"} if "without" in set_up else {}
    printed = node.run(
        *("Rscript", str(PROGRAMS / "batchtools_client.R"), str(node.folder), COMMENT, ACCOUNT),
        **quiet,
    )
    lines = dict(line.split(maxsplit=1) for line in printed.splitlines() if line[:3] == "ids")
    ids = lines["ids"].split()
    assert len(ids) == 2
    assert all(job_id.isdigit() for job_id in ids)
    assert "all done TRUE" in printed
    assert "results,gpu 1,gpu 4" in printed
