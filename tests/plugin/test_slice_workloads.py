"""Workloads of slices in the store: predicted once, looked up by the filter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy_profiles
from views import knowing_service

from berth.pilot.documents import to_json, validate
from berth.plugin.cli import main
from berth.plugin.forecasting import platforms_for
from berth.plugin.store import Store
from berth.policies.mig import lookup
from berth.policies.mig.on_slices import of_slice_workload
from berth.policies.mig.recommend import recommend
from berth.predictor.core.forecast import Forecast, WorkUnit
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.families.slices.bundle import load
from berth.predictor.families.slices.predictor import SlicePredictor, profiles_of
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware import platforms
from berth.predictor.hardware.mig.slices import slice_of

RESNET = {
    "schema": "berth.slice-workload/1",
    "name": "resnet",
    "gpu": "A100-40GB",
    "points": [
        {
            "batch": 128, "step_s": 0.0296, "mean_step_s": 0.0299, "power_w": 111,
            "sm_utilization": 0.43, "memory_utilization": 0.057,
        }
    ],
    "idle_power_w": 55,
    "memory": {"reserved_bytes": 4_500_000_000},
}  # fmt: skip


def workload(**changes: object) -> SliceWorkload:
    return validate({**RESNET, "runtime_s": 3600, **changes}, SliceWorkload, source="test")


def made(**changes: object) -> Forecast:
    return Forecaster().forecast(workload_of(workload(**changes)), platforms_for(None))


def test_the_forecast_says_what_the_recommender_says() -> None:
    forecast = made()
    geometry = lookup("A100-40GB")
    predictor = SlicePredictor(load())
    said = recommend(of_slice_workload(workload(), geometry, predictor), geometry)
    for choice in said.choices:
        point = forecast.prediction(f"a100-40gb-mig-{choice.profile.name}", 1)
        assert point is not None
        assert point.runtime_s == choice.prediction.slowdown.scaled(3600)
        assert point.memory.gpu_bytes is not None
        assert point.memory.gpu_bytes.high == 4_500_000_000
        assert point.basis is (
            Basis.MEASURED if choice.profile.name == "7g.40gb" else choice.prediction.basis
        )
    whole = forecast.prediction("a100-40gb", 1)
    assert whole is not None
    assert (whole.basis, whole.runtime_s.mid) == (Basis.MEASURED, 3600)
    assert set(forecast.curves) == set(profiles_of(geometry, platforms_for(None)))
    assert forecast.reference_platform == "a100-40gb"
    assert (forecast.reference_runtime_s, forecast.whole_job) == (3600, True)
    assert forecast.source_of("a100-40gb-mig-1g.5gb") == "slices: use"
    assert Forecast.from_json(forecast.to_json()).curves.keys() == forecast.curves.keys()


def test_every_slice_of_the_model_is_covered_whatever_its_platform_is_called() -> None:
    found = profiles_of(lookup("A100-40GB"), platforms_for(None))
    assert found["a100-mig-1g.5gb"].name == found["a100-40gb-mig-1g.5gb"].name == "1g.5gb"
    assert found["a100-40gb"].name == "7g.40gb"
    assert "a100-80gb" not in found
    assert all(slice_of(p) is None for p in platforms.load().values() if p.name == "h200-141gb")


def test_without_a_memory_need_only_the_whole_gpu_is_certain() -> None:
    forecast = made(memory=None)
    for name, capacity, enough in (
        ("a100-40gb-mig-3g.20gb", 20 * 2**30, False), ("a100-40gb", 40 * 2**30, True)
    ):  # fmt: skip
        memory = forecast.memory_at(name)
        assert memory is not None
        assert memory.gpu_bytes is None
        assert memory.fits_gpus(capacity) is enough


def test_on_gpus_that_nobody_measured_slices_are_priors() -> None:
    forecast = made(gpu="H100-80GB")
    point = forecast.prediction("h100-80gb-mig-1g.10gb", 1)
    assert point is not None
    assert point.basis is Basis.PRIOR


def test_where_the_length_of_a_job_is_not_known_a_batch_is_predicted() -> None:
    forecast = made(runtime_s=None)
    whole = forecast.prediction("a100-40gb", 1)
    assert whole is not None
    assert (forecast.unit, forecast.whole_job) == (WorkUnit.STEP, False)
    assert whole.runtime_s.mid == forecast.reference_runtime_s == 0.0296


def test_the_command_stores_lists_shows_and_refreshes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, url = tmp_path / "resnet.json", f"sqlite:///{tmp_path}/berth.db"
    file.write_text(json.dumps(RESNET))
    main(["workload", "add", str(file), "--store", url])
    assert "how much work a job does is not known" in capsys.readouterr().out
    timed = ["workload", "add", str(file), "--store", url, "--runtime", "2h", "--replace"]
    main([*timed, "--json"])
    assert "a100-40gb-mig-1g.5gb" in json.loads(capsys.readouterr().out)["platforms"]
    main(["workload", "list", "--store", url])
    assert "whole A100-40GB  2h" in capsys.readouterr().out
    main(["workload", "show", "resnet", "--store", url])
    assert "a job takes 2h" in capsys.readouterr().out
    store = Store.reading(url)
    before = store.forecasts("resnet")
    main(["workload", "refresh", "--store", url])
    after = store.forecasts("resnet")
    store.close()
    assert [f.document for f in after] == [f.document for f in before]
    assert after[0].created_s > before[0].created_s


def test_a_profiles_own_runtime_is_not_overruled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.json").write_text(to_json(toy_profiles.profile("triad")))
    with pytest.raises(SystemExit):
        main(["workload", "add", str(tmp_path / "p.json"), "--runtime", "2h"])
    assert "--runtime means nothing for a program's profile" in capsys.readouterr().err


def test_the_daemons_shelf_takes_it_as_any_forecast() -> None:
    service, _ = knowing_service(made())
    assert service.shelf.forecast("resnet") is not None
