"""Jobs with and without Berth on a real Flux: taken alike, started alike, nothing chosen lost.

Every job that Berth once broke, and 60 at random; `make differential-flux` goes on from there.
"""

from __future__ import annotations

import pytest
from differential.verdicts import Verdict
from flux_differential.cases import CASES, Case
from flux_differential.options import asks, option_names
from flux_differential.pairs import Seen, judge
from flux_differential.worlds import PLAIN, World, open_world
from flux_instance import ONLY_ON_FLUX

pytestmark = ONLY_ON_FLUX
PAIRS, SEED = 60, 1001


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, Verdict[Seen]]]:
    """All cases of a world are submitted at once, when the first of them is looked at."""
    return {}


def opened(world: World) -> dict[str, Verdict[Seen]]:
    """The cases of a world; and 60 pairs at random in the plain one."""
    mine = {case.name: case.ask for case in CASES if case.world is world}
    with open_world(world) as flux:
        if world is PLAIN:
            print(f"{PAIRS} pairs of seed {SEED}")
            random = asks(SEED, PAIRS, option_names(flux))
            mine.update({f"random {i}": ask for i, ask in enumerate(random)})
        return dict(zip(mine, judge(flux, list(mine.values())), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_job_is_taken_and_started_as_without_berth(
    case: Case, verdicts: dict[str, dict[str, Verdict[Seen]]]
) -> None:
    if case.world.name not in verdicts:
        verdicts[case.world.name] = opened(case.world)
    verdict = verdicts[case.world.name][case.name]
    assert not verdict.differences, str(verdict)
    if case.to_gpu is not None:
        assert verdict.plain.accepted, verdict.plain.message
        went = verdict.placed.spec["attributes"]["system"]["queue"] == "gpu"
        assert went is case.to_gpu, f"{verdict.placed.code}: {verdict.placed.stamp}"


def test_random_jobs_are_taken_and_started_as_without_berth(
    verdicts: dict[str, dict[str, Verdict[Seen]]],
) -> None:
    if PLAIN.name not in verdicts:
        verdicts[PLAIN.name] = opened(PLAIN)
    found = [v for name, v in verdicts[PLAIN.name].items() if name.startswith("random ")]
    assert [str(verdict) for verdict in found if verdict.differences] == []
    taken = [verdict for verdict in found if verdict.plain.accepted]
    moved = [verdict for verdict in taken if verdict.placed.was_edited]
    print(f"{len(taken)} taken, {len(moved)} moved")
    assert len(taken) >= PAIRS / 3
    assert len(moved) >= len(taken) / 3
