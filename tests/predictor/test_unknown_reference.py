"""A profile of a machine that nobody described: one number whatever is listed, from its own time;
and it abstains."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples
from toy_profiles import profile

from berth.pilot.profile import Profile
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.hardware import platforms

KNOWN = platforms.load()
NAMES = sorted(KNOWN)
FORECASTER = Forecaster(families=("program",))


def local(*, complete: bool = True, runtime_s: float = 2.0) -> Profile:
    own = profile("app", platform="local", runtime_s=runtime_s)
    counters = {
        name: m.model_copy(update={"complete": complete}) for name, m in own.counters.items()
    }
    return own.model_copy(update={"counters": counters})


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True), st.booleans())
def test_the_number_does_not_depend_on_what_is_listed(names: list[str], complete: bool) -> None:
    workload = workload_of(local(complete=complete))
    together = FORECASTER.forecast(workload, {n: KNOWN[n] for n in names}, KNOWN)
    for name in names:
        alone = FORECASTER.forecast(workload, {name: KNOWN[name]})
        ours, theirs = together.curves[name].points, alone.curves[name].points
        assert [p.runtime_s for p in ours] == [p.runtime_s for p in theirs]


def test_it_abstains_everywhere_and_says_what_to_do() -> None:
    forecast = FORECASTER.forecast(workload_of(local()), KNOWN)
    for curve in forecast.curves.values():
        for point in curve.points:
            assert point.abstained is not None
            assert "no platform file" in point.abstained
            assert point.basis is Basis.PRIOR


def test_its_own_time_enters_on_every_cpu_with_a_wide_interval() -> None:
    short, long = (
        FORECASTER.forecast(workload_of(local(runtime_s=seconds)), KNOWN) for seconds in (2.0, 8.0)
    )
    for name in (name for name in NAMES if not KNOWN[name].is_gpu):
        ours, theirs = (f.curves[name].nearest(1).runtime_s for f in (short, long))
        assert theirs.mid == pytest.approx(4 * ours.mid, rel=0.3)
        assert ours.high / ours.low > 3
