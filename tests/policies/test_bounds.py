"""What a job would hold of a queue, in the numbers that limits are compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import GIB, cpu, gpu, request

from berth.policies.bounds import cores_on_node, holds, memory_on_node, over_bounds
from berth.policies.values import UNBOUNDED, Needs, QueueBounds, Resources

MIB = 2**20


@pytest.mark.parametrize(
    ("held", "needs", "bounds", "cores"),
    [
        (Resources(1, 8, 2), Needs(), {}, 16),
        (Resources(3, 8, 2), Needs(), {}, 6),  # the fullest node has three tasks
        (Resources(0, 0, 0), Needs(), {}, 1),
        (Resources(2, 2, 1), Needs(min_cores_per_node=5), {}, 5),
        (Resources(1, 2, 1, 3), Needs(cores_per_gpu=4), {}, 12),
        (Resources(2, 2, 1, 3), Needs(cores_per_gpu=4), {}, 8),  # two GPUs on the fullest
        (Resources(1, 1, 1), Needs(exclusive=True), {}, 32),
        (Resources(1, 1, 1), Needs(), {"exclusive": True}, 32),
    ],
)
def test_cores_of_the_fullest_node(
    held: Resources, needs: Needs, bounds: dict[str, Any], cores: int
) -> None:
    assert cores_on_node(request(needs=needs), held, cpu(), QueueBounds(**bounds)) == cores


@pytest.mark.parametrize(
    ("held", "needs", "bounds", "cores"),
    [
        (Resources(3, 8, 2), Needs(), {}, 16),
        (Resources(3, 8, 2), Needs(min_cores_per_node=7), {}, 21),
        (Resources(2, 2, 1, 4), Needs(cores_per_gpu=3), {}, 12),
        (Resources(2, 2, 1), Needs(exclusive=True), {}, 64),
        (Resources(2, 2, 1), Needs(), {"exclusive": True}, 64),
        (Resources(2, 40, 1), Needs(min_cores_per_node=1), {}, 40),
    ],
)
def test_cores_in_all_are_more_than_the_tasks_only_where_more_is_taken(
    held: Resources, needs: Needs, bounds: dict[str, Any], cores: int
) -> None:
    found = holds(request(needs=needs), held, cpu(), QueueBounds(**bounds))
    assert found["cpu"] == found["billing"] == cores
    assert found["node"] == held.nodes


def test_memory_in_all_is_in_mib_and_weights_of_billing_are_not_known() -> None:
    held = Resources(3, 8, 2, 0, 5 * GIB)
    assert holds(request(), held, cpu(), UNBOUNDED)["mem"] == 3 * 5 * 1024
    assert holds(request(), held, cpu(), QueueBounds(weighted=True))["billing"] == float("inf")


def test_gpus_count_by_their_type_where_the_place_names_one() -> None:
    held = Resources(1, 1, 8, 2)
    typed = holds(request(), held, gpu(), UNBOUNDED)
    assert typed["gres/gpu"] == typed["gres/gpu:h100"] == 2
    plain = holds(request(), held, gpu(gres="gpu"), UNBOUNDED)
    assert plain["gres/gpu"] == 2
    assert not [name for name in plain if name.startswith("gres/gpu:")]
    assert "gres/gpu" not in holds(request(), Resources(1, 1, 1), cpu(), UNBOUNDED)


@pytest.mark.parametrize(
    ("asked", "needs", "bounds", "memory"),
    [
        (7 * MIB, Needs(), {"default_memory_bytes_per_core": GIB}, 7 * MIB),
        (None, Needs(all_memory=True), {"default_memory_bytes_per_core": GIB}, 128 * GIB),
        (None, Needs(), {"default_memory_bytes_per_core": GIB}, 6 * GIB),
        (None, Needs(), {"default_memory_bytes_per_node": 3 * GIB}, 3 * GIB),
        (None, Needs(), {}, 128 * GIB),
    ],
)
def test_memory_of_the_fullest_node(
    asked: int | None, needs: Needs, bounds: dict[str, Any], memory: int
) -> None:
    held = Resources(3, 8, 2, 0, asked)
    assert memory_on_node(request(needs=needs), held, cpu(), QueueBounds(**bounds)) == memory


@pytest.mark.parametrize(
    ("bounds", "held", "needs", "broken"),
    [
        ({"max_nodes": 2}, Resources(2, 2, 1), Needs(), False),
        ({"max_nodes": 2}, Resources(3, 3, 1), Needs(), True),
        ({"max_nodes": 3}, Resources(1, 1, 1), Needs(max_nodes=4), True),
        ({"min_nodes": 2}, Resources(2, 2, 1), Needs(), False),
        ({"max_cores_per_node": 6}, Resources(3, 8, 2), Needs(), False),
        ({"max_cores_per_node": 5}, Resources(3, 8, 2), Needs(), True),
        ({"max_memory_bytes_per_node": GIB}, Resources(1, 1, 1, 0, GIB), Needs(), False),
        ({"max_memory_bytes_per_node": GIB}, Resources(1, 1, 1, 0, GIB + 1), Needs(), True),
        ({"max_memory_bytes_per_core": GIB}, Resources(1, 3, 2, 0, 6 * GIB), Needs(), False),
        ({"max_memory_bytes_per_core": GIB}, Resources(1, 3, 2, 0, 6 * GIB + 1), Needs(), True),
        ({"max_time_s": 3600.0}, Resources(1, 1, 1), Needs(), False),
        ({"max_time_s": 3599.0}, Resources(1, 1, 1), Needs(), True),
    ],
)
def test_a_limit_is_broken_by_more_than_it_allows(
    bounds: dict[str, Any], held: Resources, needs: Needs, broken: bool
) -> None:
    if held.memory_bytes_per_node is None:
        held = replace(held, memory_bytes_per_node=MIB)
    asked = request(needs=needs, nodes=held.nodes, time_limit_s=3600.0)
    assert (over_bounds(asked, held, cpu(), QueueBounds(**bounds)) is not None) == broken
