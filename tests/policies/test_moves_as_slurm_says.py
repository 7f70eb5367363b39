"""From the words of ``scontrol`` to the partition that a job gets: ways to lose by a move.

Each site is a few lines of ``scontrol show partition`` and ``show node``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from one_decision import decide
from policy_builders import GIB, NOW_S, cpu, curve, forecast, gpu

from berth.plugin.daemon.protocol import SubmittedJob
from berth.plugin.daemon.requests import choice, request
from berth.plugin.scheduler.states import own_queues_of, states_of
from berth.plugin.slurm.cluster import parse_cluster
from berth.policies.settings import FitSettings, PolicySettings
from berth.policies.values import Candidate, Decision
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis

CPU = cpu(max_time_s=None)
OLD = cpu("old", max_time_s=None)
MID = cpu("mid", max_time_s=None)
BIG = cpu("bigmem", max_time_s=None, memory_bytes_per_node=1024 * GIB)
GPU = gpu(max_time_s=None)
SMALL = replace(MID, cores_per_node=16)
ONE_NODE = {"tasks": 32, "nodes": 1, "max_nodes": 1}
A_GPU = {"tasks": 1, "gres": "gpu:1", "gpus": 1}
WEIGHTS = "CPU=1.0,Mem=0.25G,GRES/gpu=10"


def part(name: str, **words: str) -> str:
    """A line of ``scontrol -o show partition``."""
    given = {"MaxTime": "UNLIMITED", "DefaultTime": "NONE", "State": "UP", **words}
    return f"PartitionName={name} " + " ".join(f"{key}={value}" for key, value in given.items())


def node(
    name: str, queues: str, cpus: int = 32, gib: int = 128, threads: int = 1, **words: str
) -> str:
    """A line of ``scontrol -o show node``."""
    given = {"CPUAlloc": "0", "State": "IDLE", "Gres": "(null)", "GresUsed": "(null)", **words}
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket={cpus // threads} CPUEfctv={cpus} "
        f"CPUTot={cpus} Sockets=1 ThreadsPerCore={threads} RealMemory={gib * 1024} AllocMem=0 "
        f"Partitions={queues} " + " ".join(f"{key}={value}" for key, value in given.items())
    )


C1, G1 = node("c1", "auto,cpu"), node("g1", "auto,gpu", 64, 512, Gres="gpu:h100:4")
B1 = node("b1", "auto,bigmem", gib=1024)


def parts(**words: dict[str, str]) -> list[str]:
    """Partitions auto, cpu, gpu and bigmem; ``every``: words of all."""
    every = words.pop("every", {})
    names = ("auto", "cpu", "gpu", "bigmem")
    return [part(name, **{**every, **words.get(name, {})}) for name in names]


def asked(
    job: dict[str, Any],
    partitions: list[str],
    nodes: list[str],
    candidates: tuple[Candidate, ...],
    known: Forecast | None = None,
    waiting: str = "",
    **configuration: str,
) -> Decision:
    """The decision on a job of 8 tasks in the partition auto."""
    config = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE_MEMORY",
              **configuration}  # fmt: skip
    facts = parse_cluster(
        "\n".join(partitions), "\n".join(nodes), waiting, "slurm 24.11",
        "".join(f"{key} = {value}\n" for key, value in config.items()), as_of_s=NOW_S - 5,
    )  # fmt: skip
    queues = ("cpu", "gpu", "bigmem", "old", "mid")
    fields = {"user": "ada", "queue": "auto", "queues": queues, "tasks": 8, "nodes": 1, **job}
    workload = None if known is None else "lu"
    described = SubmittedJob(**{"workload": workload, **fields})
    own = own_queues_of(facts, candidates)
    ask = request(described, choice(described), auto_queue="auto", own_queues=own)
    settings = PolicySettings(list_queues=True, fit=FitSettings(unnamed_partition=True))
    return decide(ask, candidates, states_of(facts, candidates), known, settings, now_s=NOW_S)


def queue(*words: Any, **more: Any) -> str:
    """The partitions that the job gets; ``auto``: it stays."""
    edit = asked(*words, **more).edit
    return (edit.queue if edit else None) or "auto"


DRAINED = node("c1", "auto,cpu", State="IDLE+DRAIN")
SHORT_CPU = [part("auto", DefaultTime="10:00:00"), part("cpu", MaxTime="01:00:00"), part("mid")]
M = [node("m1", "auto,mid", 16), node("m2", "auto,mid", 16)]


@pytest.mark.parametrize(
    ("job", "partitions", "nodes", "candidates"),
    [
        pytest.param(ONE_NODE, SHORT_CPU, [C1, *M], (CPU, SMALL), id="one node becomes two"),
        pytest.param({}, parts(), [DRAINED, G1], (CPU, GPU), id="starts on a GPU node at once"),
        pytest.param({}, parts(), [DRAINED, node("x1", "auto")], (CPU,), id="on another node"),
        pytest.param(
            {"memory_mib_per_node": 400 * 1024},
            parts(gpu={"TRESBillingWeights": "CPU=100"}), [C1, G1], (CPU, GPU), id="a bill of 100",
        ),
        pytest.param(
            A_GPU, parts(gpu={"JobDefaults": "DefCpuPerGPU=16"}), [C1, G1], (CPU, GPU),
            id="cores that come with a GPU are billed",
        ),
        pytest.param(
            {}, parts(auto={"PriorityJobFactor": "1000"}), [C1], (CPU,), id="a lower factor"
        ),
        *(
            pytest.param({}, parts(auto=words), [C1], (CPU,), id=f"others' jobs: {words}")
            for words in (
                {"ExclusiveUser": "YES"},
                {"ExclusiveTopo": "YES"},
                {"Exclusive": "USER"},
                {"Exclusive": "NODE"},
            )
        ),
        pytest.param(
            {}, parts(cpu={"Exclusive": "NODE"}), [C1], (CPU,), id="whole nodes of Slurm 26.05"
        ),
        pytest.param(
            {}, parts(cpu={"DefaultTime": "01:00:00"}), [C1], (CPU,), id="no limit becomes one"
        ),
    ],
)  # fmt: skip
def test_an_unknown_job_stays_where_a_move_would_cost_it_something(
    job: dict[str, Any], partitions: list[str], nodes: list[str], candidates: tuple[Candidate, ...]
) -> None:
    assert queue(job, partitions, nodes, candidates) == "auto"


@pytest.mark.parametrize(
    ("job", "partitions", "nodes", "configuration", "expected"),
    [
        pytest.param(
            {}, parts(every={"TRESBillingWeights": WEIGHTS}), [C1, B1, G1],
            {"DefMemPerCPU": "2048"}, {"cpu", "bigmem"}, id="equal weights, memory by the cluster",
        ),
        pytest.param(
            A_GPU, parts(every={"TRESBillingWeights": WEIGHTS}), [C1, G1],
            {"JobDefaults": "DefMemPerGPU=8000"}, {"gpu"}, id="equal weights, memory by GPU",
        ),
        pytest.param(
            A_GPU, parts(every={"TRESBillingWeights": "CPU=1,GRES/gpu:h100=10"}), [C1, G1], {},
            {"gpu"}, id="equal weights of a type that the job does not name",
        ),
        pytest.param({}, parts(), [C1, B1, G1], {}, {"cpu", "bigmem"}, id="a plain site"),
        pytest.param(
            A_GPU, parts(), [C1, node("g1", "auto,gpu", 128, 512, 2, Gres="gpu:h100:4")], {},
            {"gpu"}, id="GPU nodes with threads",
        ),
    ],
)  # fmt: skip
def test_equal_partitions_lose_no_job_by_needless_strictness(
    job: dict[str, Any], partitions: list[str], nodes: list[str], configuration: dict[str, str],
    expected: set[str],
) -> None:  # fmt: skip
    places = (CPU, BIG, GPU)
    assert set(queue(job, partitions, nodes, places, **configuration).split(",")) == expected


def test_a_job_is_not_put_behind_others_where_it_starts_at_once_as_written() -> None:
    full = node("c1", "auto,cpu", State="ALLOCATED", CPUAlloc="32")
    assert queue({}, parts(), [full, G1], (CPU, GPU), waiting="cpu|Resources\n" * 50) == "auto"


def test_jobs_that_are_started_again_are_not_sent_where_they_are_cancelled() -> None:
    partitions = [
        part("auto", PreemptMode="REQUEUE"),
        part("cpu", PreemptMode="CANCEL"),
        part("owners", PriorityTier="10"),
    ]
    nodes = [node("c1", "auto,cpu,owners")]
    preempts = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
    assert queue({}, partitions, nodes, (CPU,), **preempts) == "auto"
    partitions[1] = part("cpu", PreemptMode="REQUEUE")
    assert queue({}, partitions, nodes, (CPU,), **preempts) == "cpu"


def test_under_select_linear_every_job_holds_whole_nodes() -> None:
    fat = replace(MID, cores_per_node=128)
    partitions = [part("cpu", Default="YES"), part("mid")]
    nodes = [node("c1", "cpu"), node("f1", "mid", 128)]
    found = queue({"queue": None}, partitions, nodes, (CPU, fat), SelectType="select/linear")
    assert "mid" not in found


def test_a_default_partition_with_two_kinds_of_cores_is_never_left_for_its_own_threads() -> None:
    partitions = [part("cpu", Default="YES"), part("mid")]
    nodes = [node("c1", "cpu"), node("c2", "cpu", 64, threads=2),
             node("m1", "mid", State="ALLOCATED", CPUAlloc="32")]  # fmt: skip
    assert "cpu" in queue({"queue": None}, partitions, nodes, (CPU, MID)).split(",")


@pytest.mark.parametrize(
    "weak", [{"basis": Basis.PRIOR}, {"abstained": "too few data"}, {"factor": 8.0}]
)
def test_what_is_weakly_predicted_as_written_still_counts(weak: dict[str, Any]) -> None:
    known = forecast(curve("gpu", 800.0, gpus=True), curve("cpu", 80.0, **weak))
    assert queue({}, parts(), [C1, B1, G1], (CPU, GPU), known) == "auto"


def test_a_place_is_compared_with_the_best_of_the_free_nodes_of_its_own_queue() -> None:
    partitions = [*SHORT_CPU, part("old"), part("gpu", TRESBillingWeights="CPU=4")]
    nodes = [C1, node("o1", "auto,old"), node("m1", "auto,mid"), G1]
    slower = forecast(
        curve("cpu", 800.0), curve("old", 3200.0), curve("mid", 1600.0), targets=("cpu",)
    )
    assert queue({}, partitions, nodes, (CPU, OLD, MID), slower) == "auto"
    dear = forecast(curve("cpu", 800.0), curve("old", 3200.0), curve("gpu", 99.0, gpus=True))
    assert "gpu" not in queue({}, partitions, nodes, (CPU, OLD, GPU), dear)


def test_a_known_job_of_one_node_is_not_spread() -> None:
    partitions = [part("auto"), part("cpu"), part("mid")]
    known = forecast(curve("cpu", 3200.0), curve("mid", 80.0), targets=("cpu",))
    edit = asked(ONE_NODE, partitions, [C1, *M], (CPU, SMALL), known).edit
    assert edit is None
    assert asked({**ONE_NODE, "tasks": 16}, partitions, [C1, *M], (CPU, SMALL), known).edit


def test_an_unknown_job_that_the_gate_keeps_says_what_it_would_lose() -> None:
    decision = asked({}, parts(cpu={"OverSubscribe": "EXCLUSIVE"}), [C1], (CPU,))
    assert decision.code == "whole-nodes"
    assert decision.reason.startswith("Left where you sent it: on cpu it gives, and bills, whole")
