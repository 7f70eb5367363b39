"""What a moved job gets on a real Slurm is never less than where it was submitted: every partition
but `fast` would cost the job something, and a forecast calls each of them the fastest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from made_forecasts import curve, program
from real_daemon import GIB, RealDaemon, real_daemon, sure
from slurm_cluster import Cluster, cluster_or_skip
from slurm_conf import node

from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval

LOSING = ("short", "scav", "whole", "shared", "threads", "dear", "slow")
"""Partitions that cost a job something, each with a platform of its own."""
PLATFORMS = dict(
    zip(
        ("cpu", "fast", *LOSING),
        ("quartz", "i9-12900ks", "rome-7742", "epyc-genoa-9654", "skylake-8176",
         "cascadelake-6248", "a64fx", "broadwell-bdw", "thunderx2"),
        strict=True,
    )
)  # fmt: skip


def _partition(
    name: str,
    nodes: str = "f1,f2",
    words: str = "",
    *,
    longest: str = "1-0",
    default: str = "01:00:00",
    tier: int = 2,
) -> str:
    return (
        f"PartitionName={name} Nodes={nodes} MaxTime={longest} DefaultTime={default} "
        f"DefMemPerCPU=1000 PriorityTier={tier} {words}\n"
    )


NODES = (
    "".join(node(f"c{n}", 16, 64_000, "Feature=scratch") for n in (1, 2))
    + "".join(node(f"f{n}", 16, 64_000, "Feature=scratch") for n in (1, 2))
    + node("t1", 16, 64_000, "Feature=scratch", threads=2)
    + _partition("auto", "c1,c2", "Default=YES")
    + _partition("cpu", "c1,c2")
    + _partition("fast", default="00:10:00")
    + _partition("short", longest="00:01:00", default="00:01:00")
    + _partition("scav", words="PreemptMode=REQUEUE", tier=1)
    + _partition("whole", words="OverSubscribe=EXCLUSIVE")
    + _partition("shared", words="OverSubscribe=FORCE:2")
    + _partition("threads", "t1")
    + _partition("dear", words='TRESBillingWeights="CPU=40.0"')
    + _partition("slow")
    + "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
)
_CANDIDATE = """
[[candidates]]
name = "{name}"
platform = "{platform}"
partition = "{name}"
nodes = {nodes}
cores_per_node = 16
memory_per_node = "60G"
features = ["scratch"]
instruction_sets = []
architecture = "x86_64"
targets = ["cpu"]
"""


def only_these_places(site_file: str) -> str:
    """The site file with the partitions of this module, and lists for unknown jobs."""
    head, _, _ = site_file.partition("[[candidates]]")
    head = head.replace('[fit]\nmode = "off"', "[fit]")
    return head + "".join(
        _CANDIDATE.format(name=name, platform=platform, nodes=1 if name == "threads" else 2)
        for name, platform in PLATFORMS.items()
    )


def forecast_of(name: str, best: str) -> Forecast:
    """10 s where the job is submitted, 5 s in `fast`, 1 s in ``best``; in `slow` 100 s."""
    seconds = {"cpu": 10.0, "fast": 5.0, best: 100.0 if best == "slow" else 1.0}
    curves = {
        PLATFORMS[place]: curve(
            name, PLATFORMS[place], dict.fromkeys((1, 2, 4), sure(runtime_s)), gpu=False,
            memory=Interval(GIB / 10, GIB / 8, GIB / 6), reference_s=10.0,
        )
        for place, runtime_s in seconds.items()
    }  # fmt: skip
    return program(name, curves, reference="quartz", reference_s=10.0, peak_bytes=GIB / 8)


FORECASTS = tuple(forecast_of(f"to-{best}", best) for best in LOSING)
GUARDED = ("TimeLimit", "MinMemoryCPU", "NumCPUs", "OverSubscribe")


class Losing(Cluster):
    """The partitions above."""

    node_names = ("c1", "c2", "f1", "f2", "t1")
    nodes = NODES


@pytest.fixture(scope="module")
def losing() -> Iterator[Cluster]:
    with cluster_or_skip(Losing) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def harbour(losing: Cluster) -> Iterator[RealDaemon]:
    losing.install_filter()
    with real_daemon(losing, amend=only_these_places, forecasts=FORECASTS) as daemon:
        yield daemon


@pytest.mark.parametrize("place", LOSING)
@pytest.mark.parametrize("options", [(), ("-n", "4"), ("-n", "4", "--no-requeue", "-C", "scratch")])
def test_a_predicted_place_that_costs_the_job_something_is_not_taken(
    losing: Cluster, harbour: RealDaemon, place: str, options: tuple[str, ...]
) -> None:
    words = ("--hold", "-p", "auto", *options)
    job = losing.job(losing.sbatch(*words, f"--comment=berth:to-{place}").id)
    plain = losing.job(losing.sbatch(*words, "--comment=berth:off").id)
    assert job["Partition"] in {"fast", "fast,slow"}, job["AdminComment"]
    assert place not in job["Partition"]
    assert {key: job.get(key) for key in GUARDED} == {key: plain.get(key) for key in GUARDED}


def test_an_unknown_job_is_listed_only_where_it_loses_nothing(
    losing: Cluster, harbour: RealDaemon
) -> None:
    job = losing.job(losing.sbatch("--hold", "-p", "auto", "-n", "4").id)
    assert set(job["Partition"].split(",")) <= {"cpu", "fast", "slow"}, job["AdminComment"]
    assert job["TimeLimit"] == "01:00:00"


def test_a_job_on_whole_nodes_is_not_sent_where_slurm_shares_them(
    losing: Cluster, harbour: RealDaemon
) -> None:
    words = ("--hold", "-p", "auto", "--exclusive", "-N1", "--comment=berth:to-shared")
    assert losing.job(losing.sbatch(*words).id)["Partition"] == "fast,whole,slow"


def test_memory_by_core_stays_what_it_was_where_cores_are_asked_for_by_node(
    losing: Cluster, harbour: RealDaemon
) -> None:
    words = ("--hold", "-p", "auto", "-n4", "--mincpus=16")
    moved = losing.job(losing.sbatch(*words, "--comment=berth:to-dear").id)
    plain = losing.job(losing.sbatch(*words, "--comment=berth:off").id)
    assert moved["Partition"].startswith("fast")
    assert moved["MinMemoryCPU"] == plain["MinMemoryCPU"]
