"""Host memory of a moved job: what it held where it was, what is predicted, and by core."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_builders import GIB, NOW_S, cpu, curve, forecast, request, states

from berth.policies.bounds import memory_on_node, over_bounds
from berth.policies.decide import Decider
from berth.policies.resources import held_where_it_was, own_cores_per_node, translate, with_memory
from berth.policies.settings import PolicySettings
from berth.policies.values import (
    Candidate,
    DefaultMemory,
    Demands,
    MemoryForm,
    QueueBounds,
    Request,
    Resources,
)
from berth.predictor.core.prediction import Interval

MIB = 2**20


def held_there(job: Request, place: Candidate, predicted: Interval | None = None) -> Any:
    """Bytes a node that the job asks for in the place; None: it asks for nothing; or why not."""
    shape = translate(job, place)
    assert isinstance(shape, Resources)
    held = with_memory(job, place, shape, predicted)
    return held if isinstance(held, str) else held.memory_bytes_per_node


@pytest.mark.parametrize(
    ("default", "asked", "bytes_per_node"),
    [
        (DefaultMemory(bytes_per_core=2 * GIB), {"tasks": 8}, 16 * GIB),
        (DefaultMemory(bytes_per_core=2 * GIB), {"tasks": 2, "cpus_per_task": 3}, 12 * GIB),
        (DefaultMemory(bytes_per_core=2 * GIB), {"nodes": 2, "tasks": 8}, 8 * GIB),
        (DefaultMemory(bytes_per_node=5 * GIB), {"tasks": 8}, 5 * GIB),
        (DefaultMemory(node_bytes=64 * GIB), {"tasks": 8}, 64 * GIB),
        (DefaultMemory(bytes_per_gpu=GIB, bytes_per_core=2 * GIB), {"tasks": 1}, 2 * GIB),
        (DefaultMemory(bytes_per_gpu=9 * GIB, bytes_per_core=GIB), {"gpus": 2}, 18 * GIB),
        (
            DefaultMemory(bytes_per_core=GIB, node_cores=32),
            {"needs": Demands(exclusive=True)},
            32 * GIB,
        ),
        (
            DefaultMemory(bytes_per_core=GIB, node_cores=32, whole_nodes=True),
            {"tasks": 2},
            32 * GIB,
        ),
        (
            DefaultMemory(bytes_per_core=GIB),
            {"tasks": 1, "needs": Demands(min_cores_per_node=4)},
            4 * GIB,
        ),
        (
            DefaultMemory(bytes_per_core=GIB, node_bytes=64 * GIB),
            {"needs": Demands(all_memory=True)},
            64 * GIB,
        ),
        (None, {"tasks": 8}, None),
    ],
)
def test_what_a_job_without_a_request_holds(
    default: DefaultMemory | None, asked: dict[str, Any], bytes_per_node: int | None
) -> None:
    assert held_where_it_was(request(default_memory=default, **asked)) == bytes_per_node


def test_the_default_of_its_queue_goes_with_a_job() -> None:
    job = request(tasks=8, default_memory=DefaultMemory(bytes_per_core=2 * GIB))
    assert held_there(job, cpu()) == 16 * GIB


def test_more_is_asked_for_where_more_is_predicted_and_never_less() -> None:
    job = request(tasks=8, default_memory=DefaultMemory(bytes_per_core=2 * GIB))
    assert held_there(job, cpu(), Interval(GIB, 18 * GIB, 20 * GIB)) == 20 * GIB
    assert held_there(job, cpu(), Interval(GIB, 2 * GIB, 3 * GIB)) == 16 * GIB


def test_what_the_user_asked_for_stays_whatever_is_predicted() -> None:
    default = DefaultMemory(bytes_per_core=2 * GIB)
    job = request(tasks=8, memory_bytes_per_node=4 * GIB, default_memory=default)
    assert held_there(job, cpu(), Interval(GIB, 12 * GIB, 14 * GIB)) == 4 * GIB


def test_a_place_whose_nodes_have_less_than_the_job_held_is_ruled_out() -> None:
    job = request(tasks=8, default_memory=DefaultMemory(bytes_per_core=2 * GIB))
    small = cpu(memory_bytes_per_node=15 * GIB)
    assert held_there(job, small) == (
        "it holds 16 GiB a node if it is left alone, and a node here has 15 GiB"
    )
    all_of_it = request(
        default_memory=DefaultMemory(node_bytes=64 * GIB), needs=Demands(all_memory=True)
    )
    assert held_there(all_of_it, cpu()) is None  # --mem=0 stays as written
    assert "64 GiB" in held_there(all_of_it, small)


def test_memory_by_core_must_fit_on_all_cores_of_a_queue_of_whole_nodes() -> None:
    job = request(tasks=8, default_memory=DefaultMemory(bytes_per_core=5 * GIB))
    held = with_memory(job, cpu(), Resources(1, 8, 1), None)
    assert isinstance(held, Resources)
    whole = QueueBounds(exclusive=True)
    assert memory_on_node(job, held, cpu(), whole) == 32 * 5 * GIB
    assert "all its cores" in (over_bounds(job, held, cpu(), whole) or "")
    assert over_bounds(job, held, cpu(memory_bytes_per_node=160 * GIB), whole) is None


def test_memory_by_node_counts_as_often_as_its_tasks_took_nodes() -> None:
    default = DefaultMemory(bytes_per_core=GIB, most_node_cores=32)
    job = request(
        tasks=64, memory_bytes_per_node=2 * GIB, default_memory=default,
        needs=Demands(memory_form=MemoryForm.NODE),
    )  # fmt: skip
    assert held_there(job, cpu(cores_per_node=64)) == 4 * GIB
    assert held_there(job, cpu(cores_per_node=32)) == 2 * GIB
    everything = request(
        tasks=64, default_memory=DefaultMemory(node_bytes=64 * GIB, most_node_cores=32),
        needs=Demands(all_memory=True),
    )  # fmt: skip
    assert "128 GiB" in held_there(
        everything, cpu(cores_per_node=64, memory_bytes_per_node=100 * GIB)
    )


def test_memory_by_core_must_fit_on_all_threads_of_whole_nodes() -> None:
    job = request(
        tasks=2, memory_bytes_per_node=6 * GIB,
        needs=Demands(memory_form=MemoryForm.CORE, exclusive=True),
    )  # fmt: skip
    place = cpu(memory_bytes_per_node=128 * GIB)  # of 32 cores
    held = Resources(1, 2, 1, memory_bytes_per_node=6 * GIB)
    assert over_bounds(job, held, place, QueueBounds(min_nodes=1)) is None
    assert over_bounds(job, held, place, QueueBounds(cpus_per_core=2)) is not None


@pytest.mark.parametrize("asked", [None, 3 * GIB])
def test_cores_are_counted_whole_where_both_threads_are_given(asked: int | None) -> None:
    default = DefaultMemory(bytes_per_core=GIB, cores_given_by=2)
    form = None if asked is None else MemoryForm.CORE
    job = request(
        tasks=3,
        memory_bytes_per_node=asked,
        default_memory=default,
        needs=Demands(memory_form=form),
    )
    assert held_where_it_was(job) == 4 * GIB
    assert held_there(job, cpu()) >= 4 * GIB


def test_memory_by_core_of_whole_nodes_is_that_of_all_their_cores() -> None:
    job = request(
        tasks=4, memory_bytes_per_node=4 * GIB,
        default_memory=DefaultMemory(bytes_per_core=GIB, node_cores=32),
        needs=Demands(memory_form=MemoryForm.CORE, exclusive=True),
    )  # fmt: skip
    assert held_where_it_was(job) == 32 * GIB
    assert held_there(job, cpu(cores_per_node=4)) == 32 * GIB
    assert held_there(job, cpu(cores_per_node=32)) == 4 * GIB  # as it was: by core on all of them
    few = cpu(cores_per_node=4, memory_bytes_per_node=16 * GIB)
    assert isinstance(held_there(job, few), str)


@given(
    tasks=st.integers(1, 32),
    cpus=st.integers(1, 4),
    nodes=st.integers(0, 3),
    default=st.builds(
        DefaultMemory,
        bytes_per_core=st.sampled_from((None, GIB, 700 * MIB)),
        bytes_per_node=st.sampled_from((None, 3 * GIB)),
        node_bytes=st.just(16 * GIB),
        whole_nodes=st.booleans(),
        node_cores=st.just(8),
    ),
    predicted=st.none() | st.floats(1.0, 40.0 * GIB),
    exclusive=st.booleans(),
)
def test_in_all_never_less_than_before_nor_than_predicted(
    tasks: int,
    cpus: int,
    nodes: int,
    default: DefaultMemory,
    predicted: float | None,
    exclusive: bool,
) -> None:
    job = request(
        tasks=tasks, cpus_per_task=cpus, nodes=nodes, default_memory=default,
        needs=Demands(exclusive=exclusive),
    )  # fmt: skip
    place = cpu(nodes=100, memory_bytes_per_node=10_000 * GIB, cores_per_node=8)
    shape = translate(job, place)
    assert isinstance(shape, Resources)
    upper = None if predicted is None else Interval(0.0, predicted, predicted)
    held = with_memory(job, place, shape, upper)
    assert isinstance(held, Resources)
    before = held_where_it_was(job)
    assert before is not None
    there = memory_on_node(job, held, place, QueueBounds(exclusive=exclusive))
    if default.bytes_per_core is None or (exclusive and own_cores_per_node(job.resources) <= 8):
        assert there * held.nodes >= before * max(1, nodes)
    assert there >= (default.bytes_per_core or 0) * own_cores_per_node(held)
    assert there * held.nodes >= math.floor(predicted or 0)


def test_limits_of_a_queue_are_held_against_what_the_job_will_ask_for() -> None:
    """The problem size changes what is predicted, and with it whether the queue admits the job."""
    place = cpu()
    job = request(
        tasks=8, queue="auto", wants_placement=True,
        default_memory=DefaultMemory(bytes_per_core=GIB // 8),
        needs=Demands(memory_form=MemoryForm.NODE),
    )  # fmt: skip
    limited = states(place, bounds=QueueBounds(max_memory_bytes_per_node=2 * GIB))
    decider = Decider((place,), PolicySettings())
    too_much = decider.decide(
        job, limited, forecast(curve("cpu", 100.0, needs_bytes=2.0 * GIB)), NOW_S
    )
    assert too_much.chosen is None
    assert too_much.code == "queue-limit"
    fits = decider.decide(job, limited, forecast(curve("cpu", 100.0, needs_bytes=1.0 * GIB)), NOW_S)
    assert fits.chosen == "cpu"
    assert fits.edit.resources.memory_bytes_per_node == math.ceil(1.2 * 1024) * MIB


def test_a_job_that_fits_one_node_of_its_own_queue_is_not_spread() -> None:
    """A process of it may hold all its memory, and start a thread on each of its cores."""
    own = DefaultMemory(bytes_per_core=GIB, node_cores=32)
    small = cpu(cores_per_node=4)
    why = "it fits on one node of its own queue and would take 3 here"
    assert translate(request(tasks=12, default_memory=own), small) == why
    for spread in (
        request(tasks=12, nodes=3, default_memory=own),
        request(tasks=33, default_memory=own),
        request(tasks=12),
        request(tasks=12, default_memory=own, needs=Demands(tasks_per_node=4)),
    ):
        assert translate(spread, cpu(cores_per_node=11, nodes=9)) != why
        assert isinstance(translate(spread, cpu(cores_per_node=11, nodes=9)), Resources)


def test_a_share_of_a_mib_a_core_becomes_a_whole_one() -> None:
    by_core = Demands(memory_form=MemoryForm.CORE)
    assert (
        held_there(
            request(memory_bytes_per_node=16 * MIB, needs=by_core, tasks=8, cpus_per_task=2), cpu()
        )
        == 16 * MIB
    )
    assert (
        held_there(
            request(memory_bytes_per_node=16 * MIB + 1, needs=by_core, tasks=8, cpus_per_task=2),
            cpu(),
        )
        == 32 * MIB
    )
    assert (
        held_there(
            request(memory_bytes_per_node=16 * MIB + 1, needs=Demands(), tasks=8, cpus_per_task=2),
            cpu(),
        )
        == 16 * MIB + 1
    )


def test_memory_in_all_stays_over_more_nodes() -> None:
    """Forty tasks of 3 MiB on nodes with 32 cores: 20 tasks a node."""
    by_core = Demands(memory_form=MemoryForm.CORE)
    assert (
        held_there(request(memory_bytes_per_node=120 * MIB, needs=by_core, tasks=40), cpu())
        == 60 * MIB
    )


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        (Demands(memory_form=MemoryForm.CORE), True),
        (Demands(memory_form=MemoryForm.CORE, exclusive=True), False),
        (Demands(memory_form=MemoryForm.CORE, min_cores_per_node=3), False),
        (Demands(memory_form=MemoryForm.CORE, min_cores_per_node=2), True),
    ],
)
def test_who_takes_a_whole_node_takes_the_memory_of_all_its_cores(
    needs: Demands, fits: bool
) -> None:
    held = held_there(
        request(memory_bytes_per_node=2 * GIB, needs=needs, tasks=2),
        cpu(memory_bytes_per_node=31 * GIB),
    )
    if fits:
        assert held == 2 * GIB
    else:
        assert held == "the memory by core, on all cores of a node, is more than a node has"


def test_more_than_a_node_has_is_said_in_gib() -> None:
    held = held_there(
        request(memory_bytes_per_node=5 * GIB, needs=Demands()), cpu(memory_bytes_per_node=4 * GIB)
    )
    assert held == "you asked for 5 GiB a node and a node has 4 GiB"
    assert (
        held_there(
            request(memory_bytes_per_node=4 * GIB, needs=Demands()),
            cpu(memory_bytes_per_node=4 * GIB),
        )
        == 4 * GIB
    )
