"""The example of a site with rules of its own, on a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_daemon import by_time_alone, real_daemon
from slurm_cluster import USER, Cluster

from berth.plugin.slurm.filter import FILTER_PATH

EXAMPLE = Path(__file__).parents[2] / "examples" / "slurm-site-rules" / "job_submit.lua"
MOVES = ("--hold", "-p", "auto", "--comment=berth:stream")


def site_rules() -> str:
    return EXAMPLE.read_text().replace("/etc/slurm/berth_submit.lua", str(FILTER_PATH))


@pytest.fixture
def site(slurm: Cluster) -> Iterator[Cluster]:
    slurm.set_job_submit(site_rules())
    with real_daemon(slurm, amend=by_time_alone):
        yield slurm


def test_the_rule_for_a_partition_holds_for_jobs_that_berth_sends_there(site: Cluster) -> None:
    accepted = site.sbatch(*MOVES, "-t", "10")
    job = site.job(accepted.id)
    assert (job["Partition"], job["Account"]) == ("gpu", "gpu-users")
    assert "action=edit" in job["AdminComment"]
    assert accepted.message.startswith("sbatch: berth: note: ")


def test_a_job_that_the_rule_refuses_where_berth_would_send_it_goes_on_as_written(
    site: Cluster,
) -> None:
    plain = site.job(site.sbatch("--hold", "-p", "auto", "--comment=berth:off").id)
    left = site.sbatch(*MOVES)
    job = site.job(left.id)
    assert "action=keep code=site-rule" in job["AdminComment"]
    assert left.message == "", "nobody is told of a check that was undone"
    for key in ("Partition", "Account", "TRES", "TresPerNode", "TimeLimit", "NumTasks"):
        assert job.get(key) == plain.get(key), key


def test_a_user_who_chose_the_partition_meets_the_rule_as_without_berth(site: Cluster) -> None:
    refused = site.run("sbatch", "-p", "gpu", "--wrap=true", user=USER, check=False)
    assert refused.returncode == 1
    assert "GPU jobs must say --time" in refused.stderr
    assert "berth" not in refused.stderr


def test_without_berths_file_the_rules_hold_alone(slurm: Cluster) -> None:
    slurm.set_job_submit(EXAMPLE.read_text())
    refused = slurm.run("sbatch", "-p", "gpu", "--wrap=true", user=USER, check=False)
    assert "GPU jobs must say --time" in refused.stderr
    assert slurm.job(slurm.sbatch("-p", "gpu", "-t", "5", "--hold").id)["Partition"] == "gpu"


@pytest.mark.parametrize(
    "broken", ['error("a fault of the site\'s")', "while true do end", "return nil", 'return "yes"']
)
def test_a_rule_that_breaks_on_the_edited_job_moves_nothing_and_refuses_nothing(
    site: Cluster, broken: str
) -> None:
    start = "local function rules(job_desc, part_list, uid)\n"
    fault = f'if job_desc.partition == "gpu" then {broken} end\n'
    site.set_job_submit(site_rules().replace(start, start + fault))
    left = site.sbatch(*MOVES, "-t", "10")
    job = site.job(left.id)
    assert (job["Partition"], left.message) == ("auto", "")
    assert "code=site-rule" in job["AdminComment"]
