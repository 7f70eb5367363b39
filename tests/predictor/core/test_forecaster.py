"""The forecaster: the same number whoever asks, for workloads of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_configs import LLAMA
from toy_profiles import profile

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.predictor.core.forecast import Forecast, WorkUnit
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import Amount, Workload, workload_of
from berth.predictor.families.history.times_there import next_run
from berth.predictor.families.history.workload import HistoryWorkload, PastRun
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.hardware import platforms

KNOWN: Mapping[str, Platform] = platforms.load()
RUNS = tuple(PastRun(platform="rome-7742", cores=8, runtime_s=s) for s in (100.0, 120.0, 110.0))
WORKLOADS = {
    "program": workload_of(profile()),
    "history": workload_of(HistoryWorkload(name="h", runs=RUNS)),
    "language-model": workload_of(LanguageModelWorkload(name="llama", config=LLAMA)),
}


@pytest.fixture(scope="module")
def forecaster(toy_bundle: Path) -> Forecaster:
    return Forecaster((toy_bundle,))


@pytest.mark.parametrize("kind", WORKLOADS)
@given(data=st.data())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_which_other_platforms_are_asked_for_moves_no_number(
    forecaster: Forecaster, kind: str, data: st.DataObject
) -> None:
    workload = WORKLOADS[kind]
    every = forecaster.forecast(workload, KNOWN)
    names = data.draw(st.lists(st.sampled_from(sorted(every.curves)), min_size=1, unique=True))
    some = forecaster.forecast(workload, {name: KNOWN[name] for name in names}, KNOWN)
    assert set(some.curves) == set(names)
    for name in names:
        assert some.curves[name] == every.curves[name]
    assert some.reference_platform == every.reference_platform


@pytest.mark.parametrize("kind", WORKLOADS)
def test_json_keeps_everything(forecaster: Forecaster, kind: str) -> None:
    found = forecaster.forecast(WORKLOADS[kind], KNOWN)
    again = Forecast.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert (again.kind, again.families) == (kind, found.families)
    assert all(again.source_of(name) for name in again.curves)


def test_an_unknown_amount_is_ranked_by_the_unit_and_a_known_one_is_a_job(
    forecaster: Forecaster,
) -> None:
    unknown = forecaster.forecast(WORKLOADS["language-model"], KNOWN)
    assert unknown.unit is WorkUnit.REQUEST
    assert not unknown.whole_job
    document = LanguageModelWorkload(
        name="llama", config=LLAMA, amount=Amount(unit=WorkUnit.REQUEST, count=1000)
    )
    known = forecaster.forecast(workload_of(document), KNOWN)
    assert known.whole_job
    one = unknown.curves["h100-80gb"].points[0]
    all_ = known.curves["h100-80gb"].points[0]
    assert all_.runtime_s.mid == pytest.approx(1000 * one.runtime_s.mid)
    assert all_.speedup.mid == pytest.approx(one.speedup.mid)


def test_a_history_is_measured_where_it_ran_and_unknown_elsewhere(forecaster: Forecaster) -> None:
    found = forecaster.forecast(WORKLOADS["history"], KNOWN)
    assert set(found.curves) == {"rome-7742"}
    point = found.curves["rome-7742"].points[0]
    assert (point.basis, point.runtime_s.mid) == (Basis.MEASURED, 110.0)


def test_more_runs_narrow_the_next_runs_interval() -> None:
    widths = [next_run([100.0, 110.0, 120.0] * n) for n in (1, 3, 9)]
    ratios = [one.high / one.low for one in widths]
    assert ratios == sorted(ratios, reverse=True)
    assert next_run([5.0]).high / next_run([5.0]).low == pytest.approx(9.0)


def test_nothing_known_of_a_platform_is_said_in_one_sentence(forecaster: Forecaster) -> None:
    with pytest.raises(UsageError, match="nothing can be predicted of 'h'"):
        forecaster.forecast(WORKLOADS["history"], {"quartz": KNOWN["quartz"]}, KNOWN)


def test_a_kind_that_no_family_takes_is_said_in_one_sentence(forecaster: Forecaster) -> None:
    one = WORKLOADS["program"]
    strange = Workload("tea", "pot", one.digest, one.runs_on, one.amount, one.document)
    with pytest.raises(UsageError, match="no family can predict 'pot'"):
        forecaster.forecast(strange, KNOWN)


def test_a_bundle_that_is_none_or_of_nobody_is_refused(tmp_path: Path, toy_bundle: Path) -> None:
    with pytest.raises(DocumentError, match="is not a bundle folder"):
        Forecaster((tmp_path,))
    (tmp_path / "manifest.json").write_text('{"schema": "berth.tea/1"}')
    with pytest.raises(UsageError, match="no family here predicts with"):
        Forecaster((tmp_path,))
    with pytest.raises(UsageError, match="are both of schema"):
        Forecaster((toy_bundle, toy_bundle))


def test_every_family_explains_itself(forecaster: Forecaster) -> None:
    for workload in WORKLOADS.values():
        place = "rome-7742" if workload.kind != "language-model" else "h100-80gb"
        (found,) = forecaster.explain_each(workload, [KNOWN[place]], KNOWN)
        assert all(one.summary for one in found.values())


def test_a_forecast_knows_where_its_program_ran_and_whether_it_follows_its_shape(
    forecaster: Forecaster,
) -> None:
    ran = profile()
    forecast = forecaster.forecast(workload_of(ran), KNOWN)
    assert forecast.ran_on == (ran.platform,)
    assert not forecast.follows_shape
    marked = ran.model_copy(
        update={"runs_on": ran.runs_on.model_copy(update={"follows_shape": True})}
    )
    follows = forecaster.forecast(workload_of(marked), KNOWN)
    assert follows.follows_shape
    assert Forecast.from_json(follows.to_json()).follows_shape
    cut = ran.model_copy(update={"complete": False})
    assert forecaster.forecast(workload_of(cut), KNOWN).ran_on == ()
