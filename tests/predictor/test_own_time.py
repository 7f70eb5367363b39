"""Labels on a CPU correct the prediction by own time: few help, odd ones hardly harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_profiles import PLATFORM, examples, profile

from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.bundle import load
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms
from berth.predictor.learning.programs.adapt import adapt
from berth.predictor.learning.programs.own_time import fit_own_time

NEW = "rome-7742"
ALL = platforms.load()
LACKING = ("loads", "stores", "l1_load_misses", "llc_load_misses")


def runs(count: int, factor: float, drop: tuple[str, ...] = ()) -> list[Profile]:
    """Programs here, and there in ``factor`` times what Berth predicts of an unlabelled CPU."""
    predictor, found = Predictor.load(), []
    for number, example in enumerate(examples(kernels=count, sizes=(4000000,))):
        here = profile(example.profile.name, runtime_s=0.1 * (number + 1), drop=drop)
        guess = predictor.predict(here, ALL[NEW], reference=ALL[PLATFORM], cores=1).runtime_s.mid
        found += [here, profile(here.name, platform=NEW, runtime_s=guess * factor)]
    return found


def adapted(folder: Path, source: Path, profiles: list[Profile]) -> Predictor:
    adapt(source, profiles, ALL[NEW], ALL, folder, command="test")
    return Predictor.load(folder)


@pytest.mark.parametrize("drop", [(), LACKING])
def test_labels_move_the_prediction_of_another_program(
    tmp_path: Path, toy_bundle: Path, drop: tuple[str, ...]
) -> None:
    profiles = runs(4, 1.5, drop)
    mine = profile("other", runtime_s=3.0, drop=drop)
    before = Predictor.load(toy_bundle).predict(mine, ALL[NEW], reference=ALL[PLATFORM])
    after = adapted(tmp_path / "new", toy_bundle, profiles).predict(
        mine, ALL[NEW], reference=ALL[PLATFORM]
    )
    assert after.runtime_s.mid / before.runtime_s.mid == pytest.approx(1.5, rel=0.15)
    assert after.basis is Basis.PRIOR
    assert after.own_log_width is not None


def test_nine_kernels_that_agree_are_a_calibration_with_a_narrow_interval(
    tmp_path: Path, toy_bundle: Path
) -> None:
    predictor = adapted(tmp_path / "new", toy_bundle, runs(12, 1.5))
    mine = profile("other", runtime_s=3.0)
    found = predictor.predict(mine, ALL[NEW], reference=ALL[PLATFORM])
    assert found.basis is Basis.CALIBRATED
    assert found.runtime_s.high / found.runtime_s.mid < 1.2
    (entry,) = [e for e in load(tmp_path / "new").manifest.labelled if e.platform == NEW]
    assert entry.own_time is not None
    before = Predictor.load(toy_bundle).predict(mine, ALL[NEW], reference=ALL[PLATFORM])
    assert found.runtime_s.mid / before.runtime_s.mid == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize("factor", [1.5, 0.7])
def test_the_way_back_to_where_the_labels_were_piloted_is_the_inverse(
    tmp_path: Path, toy_bundle: Path, factor: float
) -> None:
    """Corrections belong to a pair of platforms: applied to the way back they entered twice."""
    predictor = adapted(tmp_path / "new", toy_bundle, runs(12, factor, LACKING))
    here = profile("other", runtime_s=3.0, drop=LACKING)
    there_s = predictor.predict(here, ALL[NEW], reference=ALL[PLATFORM], cores=1).runtime_s.mid
    there = profile("other", platform=NEW, runtime_s=there_s, drop=LACKING)
    back = predictor.predict(there, ALL[PLATFORM], reference=ALL[NEW], cores=1)
    assert back.runtime_s.mid == pytest.approx(3.0, rel=0.01)


def test_two_platforms_that_were_labelled_in_turn_are_compared_by_one_ratio(
    tmp_path: Path, toy_bundle: Path
) -> None:
    """As a site is calibrated: its reference kind first, then the other kinds from there."""
    first, second = NEW, "skylake-8176"
    adapt(toy_bundle, runs(12, 1.5, LACKING), ALL[first], ALL, tmp_path / "first", command="test")
    seen = Predictor.load(tmp_path / "first")
    pairs = []
    for example in examples(kernels=12, sizes=(4000000,)):
        own = profile(example.profile.name, platform=first, runtime_s=0.2, drop=LACKING)
        guess_s = seen.predict(own, ALL[second], reference=ALL[first], cores=1).runtime_s.mid
        pairs += [own, profile(own.name, platform=second, runtime_s=2.0 * guess_s)]
    both = tmp_path / "both"
    adapt(tmp_path / "first", pairs, ALL[second], ALL, both, command="test")
    predictor = Predictor.load(both)

    def moved(home: str, target: str, runtime_s: float) -> float:
        mine = profile("other", platform=home, runtime_s=runtime_s, drop=LACKING)
        found = predictor.predict(mine, ALL[target], reference=ALL[home], cores=1)
        assert home == target or found.basis is Basis.CALIBRATED
        return found.runtime_s.mid

    there_s = moved(first, second, 3.0)
    assert moved(second, first, there_s) == pytest.approx(3.0, rel=0.01)
    through_s = moved(first, second, moved(PLATFORM, first, 3.0))
    assert moved(PLATFORM, second, 3.0) == pytest.approx(through_s, rel=0.01)


def test_a_gpu_is_not_calibrated_by_profiles_without_counters(
    tmp_path: Path, toy_bundle: Path
) -> None:
    here = profile("one", drop=LACKING)
    there = profile("one", platform="p100-16gb")
    with pytest.raises(UsageError, match="lacks counters"):
        adapt(toy_bundle, [here, there], ALL["p100-16gb"], ALL, tmp_path, command="test")


def test_a_known_core_is_believed_before_one_label_and_an_unknown_one_is_not() -> None:
    error = np.array([0.3])
    known, unknown = (fit_own_time(error, ("a",), deviation) for deviation in (0.07, 0.4))
    assert known.log_factor < 0.1
    assert unknown.log_factor > 0.2
    assert known.standard_error < unknown.standard_error


def test_one_odd_program_hardly_counts() -> None:
    errors = np.array([0.1, 0.12, 0.08, 0.1, 3.0])
    one_odd, none = (fit_own_time(errors[:n], tuple("abcde"[:n]), 0.1) for n in (5, 4))
    assert one_odd.log_factor < none.log_factor + 0.05


def test_rows_of_one_kernel_count_as_one_label() -> None:
    one, two = (fit_own_time(np.full(n, 0.2), ("a",) * n, 0.3) for n in (1, 3))
    assert one.log_factor == pytest.approx(two.log_factor)
    assert one.deviation == pytest.approx(two.deviation)
