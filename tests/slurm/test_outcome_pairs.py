"""Jobs do the same as if Berth were not there: those that it once broke, and 20 at random.

Each runs twice to its end, with ``berth:off`` and placed; what each copy of the program saw is
compared. The seeds are fixed; `make differential` goes on from there with 1,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from slurm_cluster import OTHER_ROOT, ClusterUnavailable
from slurm_differential import forms
from slurm_differential.opened import WorldVerdicts, verdicts_of
from slurm_differential.outcome_cases import OUTCOME_CASES, OutcomeCase
from slurm_differential.outcome_worlds import OUTCOME_WORLDS
from slurm_differential.outcomes import Outcome, OutcomeAsk, differences, judge
from slurm_differential.worlds import World, open_world

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]
PAIRS = 10
SEEDS = {world.name: 2001 + number for number, world in enumerate(OUTCOME_WORLDS)}


def _opened(world: World) -> WorldVerdicts[Outcome]:
    mine = [case for case in OUTCOME_CASES if case.world is world]
    drawn = forms.asks(SEEDS[world.name], PAIRS)
    try:
        with open_world(world) as slurm:
            verdicts = judge(slurm, [*(case.ask for case in mine), *drawn])
    except ClusterUnavailable as missing:
        return WorldVerdicts(missing=str(missing))
    named = {case.name: verdict for case, verdict in zip(mine, verdicts, strict=False)}
    return WorldVerdicts(named, verdicts[len(mine) :])


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[[World], WorldVerdicts[Outcome]]]:
    """What each world said; all are opened when the first of them is looked at."""
    with verdicts_of(OUTCOME_WORLDS, _opened, at_once=len(OUTCOME_WORLDS)) as verdicts:
        yield verdicts


@pytest.mark.parametrize("case", OUTCOME_CASES, ids=lambda case: case.name)
def test_the_job_does_what_it_does_without_berth(
    case: OutcomeCase, worlds: Callable[[World], WorldVerdicts[Outcome]]
) -> None:
    verdict = worlds(case.world).cases[case.name]
    if case.refused:
        assert not verdict.plain.accepted
        assert not verdict.placed.accepted
        return
    plain = verdict.plain
    if "env_retrieval" in plain.reason or "requeued held" in plain.reason:
        assert verdict.placed.reason == plain.reason  # its user has no login shell here
        return
    assert plain.succeeded, f"{plain.state} {plain.reason} {plain.message} {plain.output}"
    assert not verdict.differences, str(verdict)
    if OTHER_ROOT is not None:
        return  # the numbers below are those of the installed Slurm
    for outcome in (verdict.plain, verdict.placed):
        counted = Counter(copy["label"] for copy in outcome.copies)
        assert {label: counted[label] for label in case.copies} == case.copies
        assert max((int(c.get("met", 0)) for c in outcome.copies), default=0) >= case.steps_at_once
    assert verdict.placed.memory_mb >= case.memory_mb


@pytest.mark.parametrize("world", OUTCOME_WORLDS, ids=lambda world: world.name)
def test_random_jobs_do_what_they_do_without_berth(
    world: World, worlds: Callable[[World], WorldVerdicts[Outcome]]
) -> None:
    found = worlds(world).at_random
    assert [str(verdict) for verdict in found if verdict.differences] == []
    ran = [verdict for verdict in found if verdict.plain.succeeded]
    moved = [verdict for verdict in ran if verdict.placed.was_edited]
    print(f"{len(ran)} succeed as written, {len(moved)} moved")
    assert len(ran) >= PAIRS * 0.8
    assert len(moved) >= len(ran) / 3


def test_case_names_and_catalogue() -> None:
    assert len({case.name for case in OUTCOME_CASES}) == len(OUTCOME_CASES)
    assert len({body.name for body in forms.BODIES}) == len(forms.BODIES) >= 60
    assert forms.asks(7, 50) == forms.asks(7, 50)


ASK = OutcomeAsk(("-p", "auto", "-n2"))
RAN = {
    "JobState": "COMPLETED", "ExitCode": "0:0", "Partition": "auto", "NumNodes": "1",
    "NumCPUs": "2", "NumTasks": "2", "CPUs/Task": "1", "OverSubscribe": "OK",
    "TRES": "cpu=2,mem=400M,node=1", "AdminComment": "berth/1 id=1 action=edit code=best",
}  # fmt: skip
COPIES = [
    {"label": "batch", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "-"},
    *({"label": "a", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2"} for rank in range(2)),
]


def ran(copies: list[dict[str, str]] = COPIES, printed: str = "", **record: str) -> Outcome:
    merged = {**RAN, **{key.replace("_per_", "/"): value for key, value in record.items()}}
    return Outcome(
        True, "", 7, merged, merged["JobState"], "None",
        printed=printed or "Submitted batch job 7\n", records=[merged], copies=copies,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("placed", "difference"),
    [
        (ran(), None),
        (ran(Partition="gpu", NumCPUs="8", TRES="cpu=8,mem=1G,node=1,gres/gpu=1"), None),
        (ran(TRES="cpu=2,mem=200M,node=1"), "200 MB for 400"),
        (ran(TRES="", AllocTRES="cpu=2,mem=0.5G,node=1"), None),
        (ran(TresPerNode="gres:gpu:1"), None),
        (ran(JobState="PENDING"), "does not start: PENDING"),
        (ran(NumTasks="1"), "NumTasks is 1 for 2"),
        (ran(CPUs_per_Task="0"), "CPUs/Task is 0 for 1"),
        (ran(COPIES[:2]), "1 copies of a for 2"),
        (ran([*COPIES, COPIES[-1]]), "3 copies of a for 2"),
        (ran([{**COPIES[0], "SLURM_NTASKS": "1"}, *COPIES[1:]]), "told SLURM_NTASKS=1 for 2"),
        (ran(JobState="OUT_OF_MEMORY", ExitCode="0:125"), "OUT_OF_MEMORY 0:125"),
        (ran(JobState="FAILED", ExitCode="1:0"), "FAILED 1:0"),
        (ran(printed="berth: moved\nSubmitted batch job 7\n"), "the number cannot be read"),
        (Outcome(False, "no such partition"), "rejected"),
    ],
)
def test_what_a_job_did_otherwise_is_found(placed: Outcome, difference: str | None) -> None:
    found = differences(ASK, ran(), placed)
    assert (difference is None) == (found == [])
    assert difference is None or difference in found[0]


def test_what_a_job_holds_where_it_was_not_moved_is_slurms_own() -> None:
    assert differences(ASK, ran(), ran(TRES="cpu=2,mem=200M,node=1", AdminComment="")) == []


def test_a_gpu_where_none_was_wanted_is_found() -> None:
    none = replace(ASK, body="#!/bin/sh\n#SBATCH --gres=none\n")
    (found,) = differences(none, ran(), ran(TresPerNode="gres:gpu:1"))
    assert "no GPU was wanted" in found


def test_a_job_that_does_not_succeed_as_written_says_nothing() -> None:
    assert differences(ASK, ran(JobState="FAILED", ExitCode="1:0"), Outcome(False, "no")) == []


def test_the_number_is_read_in_the_clients_way() -> None:
    merged = replace(ASK, client="merged")
    assert (
        differences(merged, ran(), ran(printed="Submitted batch job 7\nsbatch: berth: x\n")) == []
    )
    assert differences(merged, ran(), ran(printed="sbatch: berth: x y\nSubmitted batch job 7\n"))
    parsable = replace(ASK, client="parsable")
    assert differences(parsable, ran(), ran(printed="7\n")) == []
    assert differences(parsable, ran(), ran(printed="Submitted batch job 7\n"))
