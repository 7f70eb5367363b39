"""300 jobs at random, each with and without Berth: taken alike, started alike, nothing chosen lost.

The seeds are fixed; `make differential` goes on from there.
"""

from __future__ import annotations

import pytest
from accounting_database import DatabaseUnavailable
from slurm_cluster import ClusterUnavailable, require_slurm
from slurm_differential.cases import ACCOUNTS, LIMITS, PLAIN
from slurm_differential.options import asks, option_names
from slurm_differential.pairs import judge
from slurm_differential.worlds import World, open_world

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]
PAIRS = 100
COMMANDS = ("sbatch", "srun", "salloc")


@pytest.mark.parametrize(
    ("world", "seed"), [(PLAIN, 1001), (LIMITS, 1002), (ACCOUNTS, 1003)], ids=lambda x: str(x)[:6]
)
def test_random_jobs_are_taken_and_started_as_without_berth(world: World, seed: int) -> None:
    print(f"world {world.name}, seed {seed}")
    try:
        require_slurm()
        with open_world(world) as slurm:
            names = {command: option_names(slurm, command) for command in COMMANDS}
            found = judge(slurm, asks(seed, PAIRS, names, batch_only=True), settle_s=60)
    except (ClusterUnavailable, DatabaseUnavailable) as missing:
        pytest.skip(f"SLURM TESTS SKIPPED: {missing}")
    assert [str(verdict) for verdict in found if verdict.differences] == []
    taken = [verdict for verdict in found if verdict.plain.accepted]
    moved = [verdict for verdict in taken if verdict.placed.was_edited]
    print(f"{len(taken)} taken, {len(moved)} moved")
    assert len(taken) >= PAIRS / 3
    assert len(moved) >= len(taken) / 3
