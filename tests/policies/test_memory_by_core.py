"""Memory that was asked by core (``--mem-per-cpu``) is counted by core wherever the job goes."""

from __future__ import annotations

import pytest
from policy_builders import GIB, cpu, request

from berth.policies import Candidate, Resources
from berth.policies.memory import with_memory
from berth.policies.translate import translate
from berth.policies.values import MemoryForm, Needs

MIB = 2**20


def memory_of(place: Candidate, memory: int, needs: Needs, **asked: int) -> int | str | None:
    """Bytes a node there, or why not; ``memory``: bytes a node as asked."""
    job = request(memory_bytes_per_node=memory, needs=needs, **asked)
    held = translate(job, place)
    assert isinstance(held, Resources)
    found = with_memory(job, place, held, None)
    return found if isinstance(found, str) else found.memory_bytes_per_node


def test_a_share_of_a_mib_a_core_becomes_a_whole_one() -> None:
    by_core = Needs(memory_form=MemoryForm.CORE)
    assert memory_of(cpu(), 16 * MIB, by_core, tasks=8, cpus_per_task=2) == 16 * MIB
    assert memory_of(cpu(), 16 * MIB + 1, by_core, tasks=8, cpus_per_task=2) == 32 * MIB
    assert memory_of(cpu(), 16 * MIB + 1, Needs(), tasks=8, cpus_per_task=2) == 16 * MIB + 1


def test_memory_in_all_stays_over_more_nodes() -> None:
    """Forty tasks of 3 MiB on nodes with 32 cores: 20 tasks a node."""
    by_core = Needs(memory_form=MemoryForm.CORE)
    assert memory_of(cpu(), 120 * MIB, by_core, tasks=40) == 60 * MIB


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        (Needs(memory_form=MemoryForm.CORE), True),
        (Needs(memory_form=MemoryForm.CORE, exclusive=True), False),
        (Needs(memory_form=MemoryForm.CORE, min_cores_per_node=3), False),
        (Needs(memory_form=MemoryForm.CORE, min_cores_per_node=2), True),
    ],
)
def test_who_takes_a_whole_node_takes_the_memory_of_all_its_cores(needs: Needs, fits: bool) -> None:
    found = memory_of(cpu(memory_bytes_per_node=31 * GIB), 2 * GIB, needs, tasks=2)
    if fits:
        assert found == 2 * GIB
    else:
        assert found == "the memory by core, on all cores of a node, is more than a node has"


def test_more_than_a_node_has_is_said_in_gib() -> None:
    found = memory_of(cpu(memory_bytes_per_node=4 * GIB), 5 * GIB, Needs())
    assert found == "you asked for 5 GiB a node and a node has 4 GiB"
    assert memory_of(cpu(memory_bytes_per_node=4 * GIB), 4 * GIB, Needs()) == 4 * GIB
