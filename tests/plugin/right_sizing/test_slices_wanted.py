"""Jobs known from past jobs on whole GPUs go to slices only where somebody opted in."""

from __future__ import annotations

import pytest
from one_decision import decide

from berth.pilot.profile import RunsOn, Target
from berth.plugin.daemon.fitting import wants_slices
from berth.plugin.daemon.protocol import SubmittedJob
from berth.plugin.forecasting import platforms_for
from berth.plugin.site.document import SlicesFromUse
from berth.policies.codes import Code
from berth.policies.settings import PolicySettings
from berth.policies.slice_choice import profiles_that_will_do
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    Request,
    Resources,
    Translation,
)
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.families.history.times_there import FAILED_ON_SLICE
from berth.predictor.families.history.workload import HistoryWorkload, PastRun
from berth.predictor.hardware.mig.slices import part_of

GPU, SMALL = "a100-40gb", "a100-40gb-mig-1g.5gb"
PLATFORMS = platforms_for(None)
NOBODY = SlicesFromUse()


@pytest.mark.parametrize(
    ("settings", "comment", "wanted"),
    [
        (NOBODY, None, False),
        (NOBODY, "berth-slice:fit", True),
        (NOBODY, "mine, berth-slice:fit", True),
        (NOBODY, "berth-slice:fitting", False),
        (NOBODY, "berth-memory:fit", False),
        (SlicesFromUse(everybody=True), None, True),
        (SlicesFromUse(users=("alice",)), None, True),
        (SlicesFromUse(users=("bob",)), None, False),
    ],
)
def test_who_wants_slices_by_use(
    settings: SlicesFromUse, comment: str | None, wanted: bool
) -> None:
    job = SubmittedJob(kind="batch", user="alice", name="infer_7.sh", comment=comment)
    assert wants_slices(settings, job) is wanted


def _request(*, slices: bool = True) -> Request:
    return Request(
        user="alice", account="lab", resources=Resources(1, 1, 8, 1), wants_placement=True,
        workload="infer", slices_from_use=slices,
    )  # fmt: skip


def _run(platform: str = GPU, *, ended_well: bool = True) -> PastRun:
    return PastRun(
        platform=platform, cores=8, gpus=1, runtime_s=600.0, peak_gpu_bytes=3 * 2**30,
        gpu_utilisation=0.12, ended_well=ended_well,
    )  # fmt: skip


def _forecast(*runs: PastRun) -> Forecast:
    document = HistoryWorkload(name="infer", runs=runs, runs_on=RunsOn(targets=(Target.CUDA,)))
    asked = {name: PLATFORMS[name] for name in (GPU, SMALL)}
    return Forecaster().forecast(workload_of(document), asked, PLATFORMS)


def _place(name: str) -> Candidate:
    platform = PLATFORMS[name]
    return Candidate(
        name=name, platform=name, queue=name, gres=f"gpu:{name.rpartition('-')[2]}",
        gpus_per_node=4, gpu_memory_bytes=int(platform.memory_bytes), cores_per_node=64, nodes=2,
        targets=("cuda",), slice_of=platform.parent, slice_part=part_of(platform, PLATFORMS),
        translation=Translation(gpus=1, cpus_per_gpu=8), price_per_gpu_hour=1.0,
    )  # fmt: skip


def _decided(forecast: Forecast, *, slices: bool, up: bool = True) -> Decision:
    there = {
        name: CandidateState(
            up=True, idle_cores=64, idle_gpus=8 if up or name == GPU else 0, pending_jobs=0,
            as_of_s=1e9, usable_nodes=2 if up or name == GPU else 0,
        )
        for name in (GPU, SMALL)
    }  # fmt: skip
    places = (_place(GPU), _place(SMALL))
    return decide(_request(slices=slices), places, there, forecast, PolicySettings(), now_s=1e9)


def test_a_slice_is_no_choice_unless_it_is_wanted() -> None:
    forecast = _forecast(*(_run() for _ in range(4)))
    kept = _decided(forecast, slices=False)
    codes = {row.candidate: row.code for row in kept.ranked}
    assert kept.chosen == GPU
    assert codes[SMALL] == Code.SLICE_NOT_WANTED
    assert profiles_that_will_do(kept) == []
    free = _decided(forecast, slices=True)
    assert {row.candidate: row.code for row in free.ranked}[SMALL] is None


def test_slices_that_do_not_exist_yet_are_counted_for_those_who_want_them() -> None:
    forecast = _forecast(*(_run() for _ in range(4)))
    assert profiles_that_will_do(_decided(forecast, slices=True, up=False)) in (["1g.5gb"], [])
    assert profiles_that_will_do(_decided(forecast, slices=False, up=False)) == []


def test_where_it_ran_before_it_may_run_again_until_its_latest_run_failed() -> None:
    for ended_well, code in ((True, None), (False, Code.OUT_OF_RANGE)):
        runs = (*(_run() for _ in range(3)), _run(SMALL), _run(SMALL, ended_well=ended_well))
        decision = _decided(_forecast(*runs), slices=False)
        (row,) = [one for one in decision.ranked if one.candidate == SMALL]
        assert row.code == code
        if code is not None:
            assert FAILED_ON_SLICE in (row.excluded or "")
