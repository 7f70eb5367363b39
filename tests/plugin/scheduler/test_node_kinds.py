"""Which kind of node a job ran on, from the list of its nodes."""

from __future__ import annotations

import time

import pytest
from cluster_facts import node
from hypothesis import given
from hypothesis import strategies as st
from machine_speed import million_steps_s

from berth.pilot.run import Run
from berth.plugin.scheduler.node_kinds import NodeKinds, UnknownPlatform, recorded_nodes
from berth.policies.values import Candidate


def candidate(name: str, queue: str, platform: str, **more: object) -> Candidate:
    gpus = {"gpus_per_node": 4} if more.get("gres") else {}
    return Candidate(name=name, platform=platform, queue=queue, cores_per_node=32, **gpus, **more)  # type: ignore[arg-type]


CANDIDATES = (
    candidate("old", "cpu", "skylake", constraint="old"),
    candidate("new", "cpu", "genoa", constraint="new"),
    candidate("gpu", "gpu", "a100", gres="gpu:a100"),
    candidate("mig-small", "mig", "a100-mig-1g.5gb", gres="gpu:1g.5gb"),
    candidate("mig-large", "mig", "a100-mig-3g.20gb", gres="gpu:3g.20gb"),
)
NODES = (
    *(node(f"o{n}", queues=("cpu", "auto"), features=("old",)) for n in (1, 2, 3)),
    *(node(f"n{n}", queues=("cpu", "auto"), features=("new",)) for n in (1, 2)),
    node("g1", queues=("gpu", "auto"), gpus={"gpu:a100": 4}),
    node("m1", queues=("mig", "auto"), gpus={"gpu:1g.5gb": 7, "gpu:3g.20gb": 4}),
)


def ran(queue: str, nodes: str, gpus: int | None, gpu_type: str = "") -> Run:
    return Run("lab", "7", partition=queue, node_list=nodes, gpus=gpus, gpu_type=gpu_type)


KINDS = NodeKinds({one.name: one for one in NODES}, CANDIDATES)


@pytest.mark.parametrize(
    ("queue", "nodes", "gpus", "gpu_type", "platform"),
    [
        ("auto", "o1", None, "", "skylake"),
        ("auto", "o[1-3]", None, "", "skylake"),
        ("auto", "n[1-2]", 0, "", "genoa"),
        ("cpu", "n1", None, "", "genoa"),
        ("auto", "o[1-2],n1", None, "", UnknownPlatform.TWO_KINDS),
        ("auto", "g1", 2, "a100", "a100"),
        ("auto", "g1", 2, "", "a100"),
        ("auto", "g1", None, "", UnknownPlatform.UNKNOWN_NODES),  # a job for CPUs on a node of GPUs
        ("gpu", "g1", None, "", "a100"),  # a site that does not account for GPUs
        ("auto", "m1", 1, "3g.20gb", "a100-mig-3g.20gb"),
        ("mig", "m1", 1, "1g.5gb", "a100-mig-1g.5gb"),
        ("mig", "m1", 1, "2g.10gb", UnknownPlatform.UNKNOWN_NODES),
        ("mig", "m1", 1, "", UnknownPlatform.UNKNOWN_NODES),  # which of its slices is not recorded
        ("gpu", "gone7", 1, "", "a100"),  # a node that was removed: its queue still tells
        ("auto", "gone7", 1, "", UnknownPlatform.UNKNOWN_NODES),
        ("auto", "o1,gone7", None, "", UnknownPlatform.UNKNOWN_NODES),
        ("auto", "", None, "", UnknownPlatform.NO_NODES),
        ("gpu", "", 1, "", "a100"),
        ("auto", "cn[1-", None, "", UnknownPlatform.UNKNOWN_NODES),
        ("nowhere", "", None, "", UnknownPlatform.NO_NODES),
    ],
)
def test_the_nodes_say_where_a_job_ran_and_the_queue_where_they_do_not(
    queue: str, nodes: str, gpus: int | None, gpu_type: str, platform: str
) -> None:
    assert KINDS.platform_of(ran(queue, nodes, gpus, gpu_type)) == platform


def test_slices_that_were_cut_anew_since_are_known_by_their_recorded_type() -> None:
    whole = node("m1", queues=("mig", "auto"), gpus={"gpu:7g.40gb": 1})
    kinds = NodeKinds({"m1": whole}, CANDIDATES)
    assert kinds.platform_of(ran("auto", "m1", 1, "1g.5gb")) == "a100-mig-1g.5gb"


def test_candidates_are_those_to_which_every_node_belongs() -> None:
    assert KINDS.candidates_of(ran("auto", "o[1-2]", None)) == {"old"}
    assert KINDS.candidates_of(ran("auto", "o1,n1", None)) == frozenset()
    assert KINDS.candidates_of(ran("auto", "", None)) == frozenset()


def test_lists_of_10000_nodes_are_read_once_each() -> None:
    nodes = {f"cn{n:05d}": node(f"cn{n:05d}", queues=("cpu",), features=("old",))
             for n in range(10_000)}  # fmt: skip
    kinds = NodeKinds(nodes, CANDIDATES)
    begun_s = time.process_time()
    for _ in range(1_000):
        assert kinds.platform_of(ran("auto", "cn[00000-09999]", None)) == "skylake"
    assert time.process_time() - begun_s < 100 * million_steps_s()


@pytest.mark.parametrize("text", ["None assigned", "(null)", "", "None", " ", "x" * 70_000])
def test_no_nodes_are_written_in_several_ways(text: str) -> None:
    assert recorded_nodes(text) == ""


@given(st.text(alphabet="on12[]-,0 ", max_size=30))
def test_any_text_is_a_list_or_is_refused(text: str) -> None:
    answer = KINDS.platform_of(ran("auto", recorded_nodes(text), None))
    assert answer in (*UnknownPlatform, "skylake", "genoa")
