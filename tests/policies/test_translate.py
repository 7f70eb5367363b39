"""A request becomes each candidate's resources by the site's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import (
    GIB,
    cpu,
    curve,
    decided,
    forecast,
    gpu,
    ranked_as,
    request,
    states,
    translated,
)

from berth.policies.codes import Code
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Demands, Resources, Translation


def rule(**values: Any) -> Translation:
    return Translation(**values)


GPU_OF_16 = gpu(translation=rule(gpus=1, tasks_per_gpu=16, cpus_per_gpu=4, keep_tasks=False))
KEEPS = gpu(translation=rule(gpus=1, keep_tasks=True))
NOTHING_ASKED = request(tasks=0, cpus_per_task=0)


@pytest.mark.parametrize(
    ("why", "asked", "place", "held"),
    [
        ("a CPU job keeps its shape", request(cpus_per_task=2), cpu(), Resources(1, 8, 2)),
        ("MPI becomes one GPU", request(tasks=32), gpu(), Resources(1, 1, 8, 1)),
        ("one GPU for 16 tasks", request(tasks=33), GPU_OF_16, Resources(1, 3, 4, 3)),
        ("GPUs that were asked stay with their tasks",
         request(tasks=2, cpus_per_task=6, gpus=2), gpu(), Resources(1, 2, 6, 2)),
        ("one GPU stays one", request(tasks=32, gpus=1),
         gpu(translation=rule(gpus=2, cpus_per_gpu=8)), Resources(1, 32, 1, 1)),
        ("nothing asked is one core", NOTHING_ASKED, cpu(), Resources(1, 1, 1)),
        ("and one GPU", NOTHING_ASKED, KEEPS, Resources(1, 1, 1, 1)),
        ("a large job spreads", request(tasks=100), cpu(), Resources(4, 100, 1)),
        ("two tasks of 12 cores fit a node of 32",
         request(tasks=3, cpus_per_task=12), cpu(), Resources(2, 3, 12)),
        ("pinned nodes stay", request(nodes=3, pinned=("nodes",)), cpu(), Resources(3, 8, 1)),
    ],
)  # fmt: skip
def test_a_request_becomes_the_candidates_resources(
    why: str, asked: Any, place: Candidate, held: Resources
) -> None:
    assert translated(asked, place) == held, why


def test_tasks_and_cores_are_kept_unless_the_site_says_otherwise() -> None:
    place = gpu(translation=rule(gpus=1, cpus_per_gpu=16))
    asked = request(tasks=8, cpus_per_task=2)
    assert translated(asked, place) == Resources(1, 8, 2, 1)
    follows = replace(asked, follows_shape=True)
    assert translated(follows, place) == Resources(1, 1, 16, 1)
    for fixed in (
        replace(follows, keeps_shape=True),
        replace(asked, keeps_shape=True),
    ):
        assert translated(fixed, place) == Resources(1, 8, 2, 1)
        changing = gpu(translation=rule(gpus=1, cpus_per_gpu=16, keep_tasks=False))
        assert translated(fixed, changing) == Resources(1, 8, 2, 1)
    always = gpu(translation=rule(gpus=1, cpus_per_gpu=16, keep_tasks=True))
    assert translated(follows, always) == Resources(1, 8, 2, 1)


def test_a_task_never_gets_fewer_cores_than_it_asked_for() -> None:
    place = gpu(translation=rule(gpus=1, cpus_per_gpu=4, keep_tasks=False))
    assert translated(request(tasks=2, cpus_per_task=8), place) == Resources(1, 1, 8, 1)
    capped = cpu(translation=rule(max_cores=16, keep_tasks=False))
    why = "one task needs 24 cores and the site allows 16 here"
    assert translated(request(tasks=1, cpus_per_task=24), capped) == why


def test_a_kept_shape_that_does_not_fit_rules_the_place_out() -> None:
    place = gpu(translation=rule(gpus=1))
    assert translated(request(tasks=65), place) == (
        "it takes 2 nodes, which is more than its 1 GPU"
    )
    assert translated(request(nodes=2, tasks=2), place) == (
        "it takes 2 nodes, which is more than its 1 GPU"
    )


def test_memory_of_a_node_and_in_all_is_never_less_than_asked() -> None:
    asked = request(nodes=1, tasks=64, memory_bytes_per_node=100 * GIB)
    assert translated(asked, cpu()) == Resources(2, 64, 1, 0, 100 * GIB)
    by_node = Demands(tasks_per_node=4)
    asked = request(nodes=0, tasks=8, memory_bytes_per_node=2 * GIB, needs=by_node)
    assert translated(asked, cpu()) == Resources(2, 8, 1, 0, 2 * GIB)
    follows = replace(asked, follows_shape=True)
    place = gpu(translation=rule(gpus=1))
    assert translated(follows, place) == Resources(1, 1, 1, 1, 4 * GIB)


def test_tasks_are_cut_to_the_cap_only_where_the_shape_may_change() -> None:
    capped = cpu(translation=rule(max_cores=16))
    why = "24 tasks need 24 cores and the site allows 16 here"
    assert translated(request(tasks=24, cpus_per_task=1), capped) == why
    cut = cpu(translation=rule(max_cores=16, keep_tasks=False))
    assert translated(request(tasks=24, cpus_per_task=1), cut) == Resources(1, 16, 1)


@pytest.mark.parametrize(
    ("asked", "place", "why"),
    [
        (request(tasks=1, cpus_per_task=33), cpu(), "one task needs 33 cores and a node has 32"),
        (request(tasks=129), cpu(), "it needs 5 nodes and there are 4"),
        (
            request(tasks=64),
            cpu(translation=rule(max_nodes=1)),
            "it needs 2 nodes and the site allows 1 here",
        ),
        (request(gpus=9), gpu(), "it needs 3 nodes and there are 2"),
        (
            request(memory_bytes_per_node=200 * GIB),
            cpu(),
            "you asked for 200 GiB a node and a node has 128 GiB",
        ),
        (
            request(nodes=1, tasks=64, pinned=("nodes",)),
            cpu(),
            "it needs 2 nodes here and you asked for 1",
        ),
        (
            request(tasks=2, cpus_per_task=20),
            cpu(translation=rule(max_cores=16)),
            "2 tasks need 40 cores and the site allows 16 here",
        ),
    ],
)
def test_what_does_not_fit_is_a_sentence(asked: Any, place: Candidate, why: str) -> None:
    assert translated(asked, place) == why


def test_more_tasks_per_node_than_tasks_keep_the_job_where_tasks_are_kept() -> None:
    """Slurm compares limits of partitions and QOS with the tasks per node."""
    asked = request(nodes=1, tasks=4, needs=Demands(tasks_per_node=40))
    assert translated(asked, cpu()) == "your tasks per node take 40 cores and a node has 32"
    kept = "you asked for 40 tasks per node and 4 in all"
    assert translated(asked, cpu(cores_per_node=40)) == kept
    assert translated(asked, gpu()) == Resources(1, 1, 8, 1)


@pytest.mark.parametrize(
    ("threads", "tasks", "max_cores", "fits"),
    [(2, 2, 1, False), (1, 2, 1, True), (2, 1, 1, True), (8, 8, 2, False), (4, 8, 4, True)],
)
def test_a_program_gets_no_fewer_cores_than_it_is_known_to_run_with(
    threads: int, tasks: int, max_cores: int, fits: bool
) -> None:
    """A program that was told to start two threads may refuse to run on one core."""
    small = cpu(translation=rule(max_cores=max_cores, keep_tasks=False))
    known = forecast(curve("cpu", 100.0), threads=threads, least_cores=threads)
    decision = decided(
        request(tasks=tasks), (small,), known, now=states(small), settings=PolicySettings()
    )
    found = ranked_as(decision, "cpu")
    assert (found.code == Code.TOO_FEW_RESOURCES) is not fits
    if not fits:
        assert found.excluded is not None
        assert f"ran with {threads} threads" in found.excluded
