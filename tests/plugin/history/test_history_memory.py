"""Host memory and GPU memory of past jobs are two quantities, and places are judged by both."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_decision import decide

from berth.pilot.errors import UsageError
from berth.pilot.profile import RunsOn, Target
from berth.pilot.run import Run
from berth.pilot.usage.record import JOB_END, Usage
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.decided_jobs import by_user
from berth.plugin.history.run_times import PlacedJob
from berth.plugin.history.workloads import run_of
from berth.plugin.store import Store
from berth.policies.constraints import MEASURE_GPU_MEMORY
from berth.policies.settings import PolicySettings
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
from berth.predictor.core.prediction import Interval
from berth.predictor.core.workload import workload_of
from berth.predictor.families.history.workload import HistoryWorkload
from berth.predictor.hardware.mig.slices import part_of

GIB = 2**30
NOW_S = 1_800_000_000.0
GPU, SMALL, LARGE = "a100-40gb", "a100-40gb-mig-1g.5gb", "a100-40gb-mig-3g.20gb"
PLATFORMS = platforms_for(None)


@pytest.fixture(scope="module")
def forecaster() -> Forecaster:
    return forecaster_for(None)


def past(
    number: int,
    *,
    host_gib: float | None,
    gpu_gib: float | None,
    asked_gib: float = 96,
    **more: object,
) -> Run:
    """A job of one hour on one GPU."""
    end_s = NOW_S - 9_000.0 * (10 - number)
    known: dict[str, object] = {
        "cluster": "lab", "job_id": str(number), "user": "alice", "state": "completed",
        "submit_s": end_s - 3_700, "start_s": end_s - 3_600, "end_s": end_s,
        "elapsed_s": 3_600.0, "cores": 8, "gpus": 1, "name": "infer.sh", "partition": "gpu",
        "request_bytes": int(asked_gib * GIB),
        "peak_bytes": None if host_gib is None else int(host_gib * GIB),
        "gpu_peak_bytes": None if gpu_gib is None else int(gpu_gib * GIB),
    }  # fmt: skip
    return Run(**known | more)  # type: ignore[arg-type]


def forecast_of(forecaster: Forecaster, *jobs: Run, ran_on: str = GPU) -> Forecast:
    document = HistoryWorkload(
        name="infer",
        runs=tuple(run_of(PlacedJob(job, ran_on)) for job in jobs),
        runs_on=RunsOn(targets=(Target.CUDA,)),
    )
    asked = {name: PLATFORMS[name] for name in (GPU, SMALL, LARGE, "a100-80gb")}
    return forecaster.forecast(workload_of(document), asked, PLATFORMS, reference=None)


def place(name: str, *, node_gib: int = 512) -> Candidate:
    platform = PLATFORMS[name]
    return Candidate(
        name=name, platform=name, queue=name, gres=f"gpu:{name.rpartition('-')[2]}",
        gpus_per_node=4, gpu_memory_bytes=int(platform.memory_bytes), cores_per_node=64,
        memory_bytes_per_node=node_gib * GIB, nodes=2, targets=("cuda",),
        slice_of=platform.parent, slice_part=part_of(platform, PLATFORMS),
        translation=Translation(gpus=1, cpus_per_gpu=8),
    )  # fmt: skip


def decided(forecast: Forecast, *places: Candidate, gpus: int = 1) -> Decision:
    present = CandidateState(
        up=True, idle_cores=64, idle_gpus=8, pending_jobs=0, as_of_s=NOW_S - 5, usable_nodes=2
    )
    request = Request(
        user="alice",
        account="lab",
        resources=Resources(1, 1, 8, gpus),
        wants_placement=True,
        workload="infer",
    )
    there = {one.name: present for one in places}
    settings = PolicySettings(strict=False)
    return decide(request, places, there, forecast, settings, now_s=NOW_S)


def verdicts(decision: Decision) -> dict[str, str | None]:
    return {row.candidate: row.excluded for row in decision.ranked}


def test_much_gpu_memory_and_little_host_memory_never_gets_a_small_slice(
    forecaster: Forecaster,
) -> None:
    found = forecast_of(forecaster, *(past(n, host_gib=2, gpu_gib=30) for n in range(4)))
    why = verdicts(decided(found, place(GPU), place(SMALL), place(LARGE)))
    assert why[GPU] is None
    assert why[LARGE] == "it may need 37.5 GiB of GPU memory; there is 19.6 GiB"
    assert "GPU memory" in (why[SMALL] or "")


def test_little_gpu_memory_and_much_host_memory_fits_a_slice_of_a_node_that_has_it(
    forecaster: Forecaster,
) -> None:
    jobs = [past(n, host_gib=60, gpu_gib=3, asked_gib=64) for n in range(4)]
    found = forecast_of(forecaster, *jobs)
    for name in (GPU, SMALL, LARGE):
        assert verdicts(decided(found, place(name, node_gib=64))) == {name: None}
    why = verdicts(decided(found, place(SMALL, node_gib=48)))
    assert why[SMALL] == "it may need 64.0 GiB of host memory; there is 48.0 GiB"


def test_gpu_memory_that_nobody_measured_fits_whole_gpus_as_large_as_it_ran_on_only(
    forecaster: Forecaster,
) -> None:
    found = forecast_of(forecaster, *(past(n, host_gib=2, gpu_gib=None) for n in range(4)))
    why = verdicts(decided(found, place(GPU), place(SMALL), place(LARGE)))
    assert why[GPU] is None
    for name in (SMALL, LARGE):
        assert why[name] is not None
        assert "its GPU memory was never measured; it ran on GPUs of 40.0 GiB" in why[name]
        assert MEASURE_GPU_MEMORY in why[name]
    for row in decided(found, place(GPU)).ranked:
        assert row.memory is not None
        assert row.memory.gpu_bytes is None
        assert row.memory.host_bytes is not None


def test_jobs_that_ran_on_a_slice_fit_slices_as_large(forecaster: Forecaster) -> None:
    jobs = [past(n, host_gib=2, gpu_gib=None) for n in range(4)]
    found = forecast_of(forecaster, *jobs, ran_on=LARGE)
    assert verdicts(decided(found, place(LARGE)))[LARGE] is None


def test_failed_jobs_show_neither_a_time_nor_that_a_gpu_is_enough(forecaster: Forecaster) -> None:
    jobs = [past(n, host_gib=60, gpu_gib=None, asked_gib=64, state="failed") for n in range(4)]
    with pytest.raises(UsageError, match="nothing can be predicted"):
        forecast_of(forecaster, *jobs)
    one = past(4, host_gib=60, gpu_gib=None, asked_gib=64)
    memory = forecast_of(forecaster, *jobs, one).memory_at(GPU)
    assert memory is not None
    assert memory.host_bytes is not None
    assert memory.host_bytes.high == 75 * GIB


def test_a_peak_close_to_a_gpus_memory_still_fits_where_it_ran(forecaster: Forecaster) -> None:
    found = forecast_of(forecaster, *(past(n, host_gib=2, gpu_gib=38) for n in range(4)))
    assert verdicts(decided(found, place(GPU)))[GPU] is None


def test_memory_of_several_nodes_and_gpus_is_that_of_all_of_them(forecaster: Forecaster) -> None:
    jobs = [past(n, host_gib=10, gpu_gib=20, nodes=2, gpus=4, asked_gib=96) for n in range(3)]
    (point,) = forecast_of(forecaster, *jobs).curves[GPU].points
    assert point.gpus == 4
    assert point.memory.host_bytes == Interval(20 * GIB, 20 * GIB, 25 * GIB)
    assert point.memory.gpu_bytes == Interval(80 * GIB, 80 * GIB, 100 * GIB)
    found = forecast_of(forecaster, *jobs)
    assert verdicts(decided(found, place(GPU), gpus=4))[GPU] is None
    assert "GPU memory" in (verdicts(decided(found, place(GPU), gpus=2))[GPU] or "")


def test_more_cores_are_judged_by_the_memory_of_runs_with_more_cores(
    forecaster: Forecaster,
) -> None:
    runs = (
        past(1, host_gib=4, gpu_gib=None, gpus=None, cores=4),
        past(2, host_gib=50, gpu_gib=None, gpus=None, cores=64),
    )
    document = HistoryWorkload(
        name="cpu", runs=tuple(run_of(PlacedJob(job, "rome-7742")) for job in runs)
    )
    found = forecaster.forecast(
        workload_of(document), {"rome-7742": PLATFORMS["rome-7742"]}, PLATFORMS, reference=None
    )
    few, many = (found.memory_at("rome-7742", cores) for cores in (4, 64))
    assert few is not None
    assert many is not None
    assert few.host_bytes is not None
    assert many.host_bytes is not None
    assert (few.host_bytes.mid, many.host_bytes.mid) == (4 * GIB, 50 * GIB)
    assert many.gpu_bytes is None


def test_the_kernels_own_peak_replaces_what_accounting_sampled(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.sqlite")
    store.past_jobs.put([past(1, host_gib=4, gpu_gib=None), past(2, host_gib=4, gpu_gib=None)])
    store.usages.put(
        [
            Usage("lab", "1", JOB_END, node="n1", peak_bytes=5 * GIB, gpu_peak_bytes=2 * GIB),
            Usage("lab", "2", JOB_END, node="n1", peak_bytes=1, reporter="mallory"),
        ]
    )
    ((user, (first, second)),) = by_user(store)
    assert user == "alice"
    assert (first.peak_bytes, first.gpu_peak_bytes) == (5 * GIB, 2 * GIB)
    assert first.peak_source == "cgroup"
    assert (second.peak_bytes, second.peak_source) == (4 * GIB, "")
