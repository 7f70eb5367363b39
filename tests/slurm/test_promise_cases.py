"""Jobs are taken and started as if Berth were not there: those it once broke, and 300 at random.

The cases are V1 to V10. The seeds of the jobs at random are fixed; `make differential` goes on
from there. Each world is one cluster for both, and the worlds run side by side: they mostly wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from accounting_database import DatabaseUnavailable
from differential.verdicts import Verdict
from fake_daemon import FakeDaemon, move_to
from slurm_cluster import Cluster, ClusterUnavailable, wait_until
from slurm_differential.cases import ACCOUNTS, CASES, LIMITS, PLAIN, WORLDS, Case
from slurm_differential.opened import WorldVerdicts, verdicts_of
from slurm_differential.options import asks, option_names
from slurm_differential.pairs import Seen, judge
from slurm_differential.worlds import World, open_world

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]
RANDOM = ((PLAIN, 1001), (LIMITS, 1002), (ACCOUNTS, 1003))
"""Worlds that also get jobs at random, with their seeds."""
PAIRS = 100
COMMANDS = ("sbatch", "srun", "salloc")
AT_ONCE = 3
"""Worlds that run at a time."""


def _opened(world: World, seeds: list[int]) -> WorldVerdicts[Seen]:
    mine = [case for case in CASES if case.world is world]
    try:
        with open_world(world) as slurm:
            judged = judge(slurm, [case.ask for case in mine])
            at_random: list[Verdict[Seen]] = []
            for seed in seeds:
                names = {command: option_names(slurm, command) for command in COMMANDS}
                made = asks(seed, PAIRS, names, batch_only=True)
                at_random += judge(slurm, made, settle_s=60)
    except (ClusterUnavailable, DatabaseUnavailable) as missing:
        return WorldVerdicts(missing=str(missing))
    named = {case.name: verdict for case, verdict in zip(mine, judged, strict=True)}
    return WorldVerdicts(named, at_random)


@pytest.fixture(scope="module")
def worlds(request: pytest.FixtureRequest) -> Iterator[Callable[[World], WorldVerdicts[Seen]]]:
    """What each world said; all are opened when the first of them is looked at."""
    asked = {
        item.callspec.params["world"].name
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.function is test_random_jobs_are_taken_and_started_as_without_berth
    }
    seeds = {
        world.name: [seed for other, seed in RANDOM if other is world and world.name in asked]
        for world in WORLDS
    }
    order = sorted(WORLDS, key=lambda world: not seeds[world.name])

    def opened(world: World) -> WorldVerdicts[Seen]:
        return _opened(world, seeds[world.name])

    with verdicts_of(order, opened, at_once=AT_ONCE) as verdicts:
        yield verdicts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_job_is_taken_and_started_as_without_berth(
    case: Case, worlds: Callable[[World], WorldVerdicts[Seen]]
) -> None:
    verdict = worlds(case.world).cases[case.name]
    assert not verdict.differences, str(verdict)
    if case.refused is not None and case.refused in verdict.plain.message:
        assert not verdict.placed.accepted
        return
    assert verdict.plain.accepted, verdict.plain.message
    if case.to_gpu is not None:
        went = verdict.placed.record["Partition"] in ("gpu", "reserved", "all", "whole")
        assert went is case.to_gpu, f"{verdict.placed.code}: {verdict.placed.message}"


@pytest.mark.parametrize(
    "world",
    [PLAIN, *(pytest.param(world, marks=pytest.mark.slow) for world in (LIMITS, ACCOUNTS))],
    ids=lambda world: world.name,
)
def test_random_jobs_are_taken_and_started_as_without_berth(
    world: World, worlds: Callable[[World], WorldVerdicts[Seen]]
) -> None:
    found = worlds(world).at_random
    assert len(found) == PAIRS
    assert [str(verdict) for verdict in found if verdict.differences] == []
    taken = [verdict for verdict in found if verdict.plain.accepted]
    moved = [verdict for verdict in taken if verdict.placed.was_edited]
    print(f"{len(taken)} taken, {len(moved)} moved")
    assert len(taken) >= PAIRS / 3
    assert len(moved) >= len(taken) / 4  # a job that no place betters stays


def test_every_world_has_cases() -> None:
    assert {case.world.name for case in CASES} == {world.name for world in WORLDS}
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_kill_switch_that_cannot_be_read_is_on(slurm: Cluster) -> None:
    """As where it was made with ``umask 077`` and slurmctld is not root: here its folder is a
    file's loop, which root cannot look into either."""
    loop = slurm.root / "run" / "loop"
    loop.symlink_to(loop)
    slurm.set_filter_config(kill_switch=loop / "off")
    with FakeDaemon(slurm.berth_socket, lambda _: move_to("gpu")) as daemon:
        job = slurm.sbatch("-p", "auto", "--hold")
    loop.unlink()
    assert slurm.job(job.id)["Partition"] == "auto"
    assert not daemon.requests
    said = re.compile(r"berth: .*: jobs go on unchanged")
    wait_until(lambda: said.search(slurm.log()) is not None, "slurmctld logs it")
