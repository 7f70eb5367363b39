"""Where job_submit runs when jobs may go to several clusters: `-M`, and a federation of two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from slurm_cluster import USER, Cluster, cluster, cluster_or_skip, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NAMES = ("berthtest", "second")
WITNESS = """\
function slurm_job_submit(job_desc, part_list, submit_uid)
  slurm.log_info("WITNESS %s %s", tostring(job_desc.name), tostring(job_desc.comment))
  job_desc.comment = (job_desc.comment or "") .. "CLUSTER,"
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
"""


@dataclass(frozen=True)
class Pair:
    """Two clusters of one accounting database."""

    first: Cluster
    second: Cluster

    def seen(self, job: str) -> tuple[list[str], list[str]]:
        """The comments with which each cluster's job_submit saw the job of that name."""
        pattern = re.compile(rf"WITNESS {job} (.*)$", re.MULTILINE)
        first, second = (pattern.findall(one.log()) for one in (self.first, self.second))
        return first, second

    def submit(self, job: str, *options: str) -> str:
        words = ("sbatch", "--parsable", "--wrap=true", f"--job-name={job}", *options)
        return self.first.run(*words, user=USER).stdout.strip()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with cluster_or_skip(database=(), job_submit=WITNESS.replace("CLUSTER", NAMES[0])) as first:
        yield from _with_second(first)


def _with_second(first: Cluster) -> Iterator[Pair]:
    def joined(files: Mapping[str, str]) -> dict[str, str]:
        """The second cluster's configuration: the first one's accounting and munge."""
        shared = re.findall(r"^AccountingStorage.*\n", (first.etc / "slurm.conf").read_text(), re.M)
        text = files["slurm.conf"].replace("ClusterName=berthtest", "ClusterName=second")
        text = re.sub(r"AuthInfo=.*", f"AuthInfo=socket={first.root}/run/munge.sock", text)
        return {**files, "slurm.conf": text + "".join(shared)}

    first.run("sacctmgr", "-i", "add", "cluster", "second")
    with cluster(amend=joined, job_submit=WITNESS.replace("CLUSTER", NAMES[1])) as second:
        first.run("sacctmgr", "-i", "add", "account", "staff")
        for user in (USER, "root"):
            first.run("sacctmgr", "-i", "add", "user", user, "account=staff")
        asked = ("sacctmgr", "-n", "-P", "show", "cluster", "format=cluster,controlport")
        wait_until(
            lambda: len(re.findall(r"\|[1-9]", first.run(*asked).stdout)) == len(NAMES),
            "both clusters are registered",
        )
        yield Pair(first, second)


def test_a_job_for_another_cluster_is_seen_there_only(pair: Pair) -> None:
    pair.submit("there", "--clusters=second")
    wait_until(lambda: bool(pair.seen("there")[1]), "the second cluster saw it")
    assert pair.seen("there") == ([], ["nil"])


def test_a_job_for_whichever_is_first_is_asked_about_everywhere_and_submitted_to_one(
    pair: Pair,
) -> None:
    pair.submit("anywhere", "--clusters=berthtest,second")
    first, second = pair.seen("anywhere")
    assert sorted([len(first), len(second)]) == [1, 2]  # `will it run` in both, then once for good
    assert {*first, *second} == {"nil"}


@pytest.fixture
def federated(pair: Pair) -> Iterator[Pair]:
    """The two as a federation, and apart again after it, as tests come in any order."""
    pair.first.run("sacctmgr", "-i", "add", "federation", "both", f"clusters={','.join(NAMES)}")
    wait_until(
        lambda: all("PersistConnSend/Recv:Yes/Yes" in text for text in _federations(pair)),
        "the clusters are connected",
    )
    yield pair
    pair.first.run("sacctmgr", "-i", "delete", "federation", "both")
    wait_until(
        lambda: not any("PersistConn" in text for text in _federations(pair)),
        "the clusters are no federation any more",
    )


def _federations(pair: Pair) -> list[str]:
    each = (pair.first, pair.second)
    return [one.run("scontrol", "show", "federation").stdout for one in each]


def test_in_a_federation_the_origin_sees_a_job_first_and_each_sibling_what_it_was_made(
    federated: Pair,
) -> None:
    pair = federated
    pair.submit("federated")
    wait_until(lambda: bool(pair.seen("federated")[1]), "the sibling saw it")
    assert pair.seen("federated") == (["nil"], ["nil"])
    held = pair.submit("held", "--hold")
    assert pair.seen("held") == (["nil"], [])
    pair.first.run("scontrol", "release", held)
    wait_until(lambda: bool(pair.seen("held")[1]), "the sibling saw it once it was released")
