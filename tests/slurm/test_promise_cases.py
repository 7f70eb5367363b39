"""Every job that Berth once broke is taken and started as if Berth were not there (V1 to V10)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from accounting_database import DatabaseUnavailable
from differential.verdicts import Verdict
from fake_daemon import FakeDaemon, move_to
from slurm_cluster import Cluster, ClusterUnavailable, require_slurm
from slurm_differential.cases import CASES, HET, WORLDS, Case
from slurm_differential.pairs import Seen, judge
from slurm_differential.worlds import World, open_world, placing

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]


def _opened(world: World) -> Iterator[dict[str, Verdict[Seen]]]:
    try:
        require_slurm()
        mine = [case for case in CASES if case.world is world]
        with open_world(world) as slurm:
            found = judge(slurm, [case.ask for case in mine])
    except (ClusterUnavailable, DatabaseUnavailable) as missing:
        pytest.skip(f"SLURM TESTS SKIPPED: {missing}")
    yield {case.name: verdict for case, verdict in zip(mine, found, strict=True)}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, Verdict[Seen]]]:
    """All cases of a world are submitted at once, when the first of them is looked at."""
    return {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_job_is_taken_and_started_as_without_berth(
    case: Case, verdicts: dict[str, dict[str, Verdict[Seen]]]
) -> None:
    if case.world.name not in verdicts:
        verdicts[case.world.name] = next(_opened(case.world))
    verdict = verdicts[case.world.name][case.name]
    assert not verdict.differences, str(verdict)
    if case.refused is not None and case.refused in verdict.plain.message:
        assert not verdict.placed.accepted
        return
    assert verdict.plain.accepted, verdict.plain.message
    if case.to_gpu is not None:
        went = verdict.placed.record["Partition"] in ("gpu", "reserved", "all", "whole")
        assert went is case.to_gpu, f"{verdict.placed.code}: {verdict.placed.message}"


def test_every_world_has_cases() -> None:
    assert {case.world.name for case in CASES} == {world.name for world in WORLDS}
    assert len({case.name for case in CASES}) == len(CASES)


def test_components_of_a_heterogeneous_job_stay_together(slurm: Cluster) -> None:
    with placing(slurm):
        job = slurm.sbatch("--comment=berth:stream", *HET)
        slurm.wait_for_state(f"{job.id}+0", "COMPLETED", timeout_s=40)
        assert slurm.job(f"{job.id}+0")["Partition"] == "auto"
        assert " code=together " in slurm.job(f"{job.id}+0")["AdminComment"]


def test_an_edit_without_a_stamp_is_not_carried_out(slurm: Cluster) -> None:
    reply = {key: value for key, value in move_to("gpu").items() if key != "stamp"}
    with FakeDaemon(slurm.berth_socket, lambda _: reply):
        job = slurm.sbatch("-p", "auto", "--hold")
    assert slurm.job(job.id)["Partition"] == "auto"


def test_a_kill_switch_that_cannot_be_read_is_on(slurm: Cluster) -> None:
    """As where it was made with ``umask 077`` and slurmctld is not root: here its folder is a
    file's loop, which root cannot look into either."""
    loop = slurm.root / "run" / "loop"
    loop.symlink_to(loop)
    slurm.set_filter_config(
        socket=slurm.berth_socket, kill_switch=loop / "off", deadline_ms=1000, reread_config_s=0
    )
    with FakeDaemon(slurm.berth_socket, lambda _: move_to("gpu")) as daemon:
        job = slurm.sbatch("-p", "auto", "--hold")
    loop.unlink()
    assert slurm.job(job.id)["Partition"] == "auto"
    assert not daemon.requests
    assert re.search(r"berth: .*: jobs go on unchanged", slurm.log())
