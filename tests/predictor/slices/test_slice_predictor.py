"""The shipped slice predictor: ordered, honest about what it does not know, deterministic."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slice_workloads import jitter, saturating_s, sweep, utilised

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Basis, Bound
from berth.predictor.families.slices.bundle import load
from berth.predictor.families.slices.physics import SliceShare
from berth.predictor.families.slices.predictor import SlicePredictor, memory_of, predictions
from berth.predictor.families.slices.workload import SliceProbe, SliceWorkload, WholeRun
from berth.predictor.hardware.mig.slices import lookup

SHARES = tuple(SliceShare(c / 7, m / 8) for c, m in ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8)))
PREDICTOR = SlicePredictor(load())


def test_times_over_batches_and_processes_are_extrapolated_to_slices() -> None:
    for batch, processes in ((1.0, 1), (16.0, 2), (128.0, 5)):
        made = PREDICTOR.predict(sweep(batch=batch, processes=processes), SHARES, gpu="A100-80GB")
        for share, said in zip(SHARES, made, strict=True):
            effective = PREDICTOR.model.shares.effective(share)
            real = saturating_s(batch, processes, effective) / saturating_s(batch, processes)
            assert said.slowdown.mid == pytest.approx(real, rel=0.25)
            assert said.method == "sweep"


@settings(deadline=None)
@given(st.floats(0.006, 0.9), st.floats(0.2, 1.0), st.floats(0.002, 0.4))
def test_a_smaller_slice_is_never_said_to_be_faster(
    memory: float, sm: float, step_s: float
) -> None:
    workload = utilised(memory_utilization=memory, sm_utilization=sm, step_s=step_s)
    made = PREDICTOR.predict(workload, SHARES, gpu="A100-40GB")
    mids = [p.slowdown.mid for p in made]
    assert mids == sorted(mids, reverse=True)
    assert mids[-1] == 1
    for p in made:
        assert 0.9 <= p.slowdown.low <= p.slowdown.mid <= p.slowdown.high
        assert p.step_s.mid == pytest.approx(step_s * p.slowdown.mid)
        assert 0 <= p.launch_share <= 1


def test_the_same_question_has_the_same_answer() -> None:
    again = SlicePredictor(load())
    for workload, gpu in ((utilised(), "A100-40GB"), (sweep(), "A100-80GB")):
        assert PREDICTOR.predict(workload, SHARES, gpu=gpu) == again.predict(
            workload, SHARES, gpu=gpu
        )


def test_the_answer_for_a_slice_does_not_depend_on_the_others_asked_for() -> None:
    alone = PREDICTOR.predict(utilised(), SHARES[1:2], gpu="A100-40GB")[0]
    assert alone.slowdown.mid == pytest.approx(
        PREDICTOR.predict(utilised(), SHARES, gpu="A100-40GB")[1].slowdown.mid
    )


def test_a_waiting_gpu_loses_less_than_a_busy_one() -> None:
    idle = utilised(memory_utilization=0.02, sm_utilization=0.4, power_w=70, step_s=0.02)
    busy = utilised(memory_utilization=0.7, sm_utilization=0.95, power_w=240, step_s=0.1)
    light, heavy = (PREDICTOR.predict(w, SHARES[:1], gpu="A100-40GB")[0] for w in (idle, busy))
    assert light.slowdown.high < heavy.slowdown.low
    assert light.launch_share > heavy.launch_share
    assert heavy.bound is Bound.MEMORY


def test_gpus_and_slices_that_were_not_measured_are_said_to_be_guesses() -> None:
    known, double = PREDICTOR.predict(
        utilised(), (SHARES[0], SliceShare(1 / 7, 2 / 8)), gpu="A100-40GB"
    )
    (other,) = PREDICTOR.predict(utilised(gpu="H100-80GB"), SHARES[:1], gpu="H100-80GB")
    assert (known.basis, double.basis, other.basis) == (
        Basis.CALIBRATED, Basis.SCALED, Basis.PRIOR,
    )  # fmt: skip
    assert other.slowdown.high > known.slowdown.high


def test_one_step_time_alone_is_a_prior_with_a_wide_interval() -> None:
    bare = SliceWorkload(name="a", gpu="A100-40GB", points=(WholeRun(batch=8, step_s=0.05),))
    (made,) = PREDICTOR.predict(bare, SHARES[:1], gpu="A100-40GB")
    assert made.basis is Basis.PRIOR
    assert made.slowdown.high / made.slowdown.mid > 2


def test_a_probe_moves_the_other_slices() -> None:
    slow = SliceProbe(batch=64, profile="1g.5gb", step_s=0.05 * 6)
    quick = SliceProbe(batch=64, profile="1g.5gb", step_s=0.05 * 1.5)
    said = [
        PREDICTOR.predict(
            utilised(probes=(probe,)), SHARES, gpu="A100-40GB", probes=((SHARES[0], probe),)
        )
        for probe in (slow, quick)
    ]
    assert said[0][1].slowdown.mid > PREDICTOR.predict(
        utilised(), SHARES, gpu="A100-40GB"
    )[1].slowdown.mid  # fmt: skip
    assert said[1][1].slowdown.mid < said[0][1].slowdown.mid
    swept = sweep(batch=64.0)
    probe = SliceProbe(batch=64, profile="1g.10gb", step_s=saturating_s(64, 1, 0.13))
    told = swept.model_copy(update={"probes": (probe,)})
    informed = PREDICTOR.predict(told, SHARES, gpu="A100-80GB", probes=((SHARES[0], probe),))
    plain = PREDICTOR.predict(swept, SHARES, gpu="A100-80GB")
    assert informed[1].slowdown.mid > plain[1].slowdown.mid


def test_slices_that_ran_the_load_are_measured_and_bound_the_others() -> None:
    """A simulation whose throughput on some slices stands in its site's own table."""
    rates = {"1g.5gb": 11.5, "2g.10gb": 21.0, "3g.20gb": 31.0}
    simulation = SliceWorkload(
        name="md", gpu="A100-40GB", points=(WholeRun(throughput_per_s=42.0),),
        probes=tuple(SliceProbe(profile=p, throughput_per_s=rate) for p, rate in rates.items()),
    )  # fmt: skip
    geometry = lookup("A100-40GB")
    made = predictions(simulation, geometry, PREDICTOR)
    for profile, rate in rates.items():
        assert made[profile].basis is Basis.MEASURED
        assert made[profile].slowdown.mid == pytest.approx(42.0 / rate)
        assert made[profile].slowdown.high < 1.06 * 42.0 / rate
    assert made["4g.20gb"].basis is Basis.CALIBRATED
    assert made["4g.20gb"].slowdown.high < 1.06 * 42.0 / 31.0
    assert made["1g.10gb"].slowdown.low > 0.94 * 42.0 / 21.0
    # Where it ran, it fits, whether or not its memory was measured.
    assert memory_of(simulation, geometry).fits_gpus(geometry.profile("1g.5gb").memory_bytes)
    larger = simulation.model_copy(update={"batch": 2.0})
    assert not memory_of(larger, geometry).fits_gpus(geometry.profile("3g.20gb").memory_bytes)


def test_a_gpu_that_waits_limits_every_methods_slow_down() -> None:
    """Its time may grow with the batch on the host."""
    plain = sweep(batch=64.0, most=1)
    waiting = tuple(p.model_copy(update={"sm_utilization": 0.2}) for p in plain.points)
    (made,) = PREDICTOR.predict(
        plain.model_copy(update={"points": waiting}), SHARES[:1], gpu="A100-80GB"
    )
    assert PREDICTOR.predict(plain, SHARES[:1], gpu="A100-80GB")[0].slowdown.mid > 4
    assert made.slowdown.mid == pytest.approx(0.8 + 0.2 / 0.147, rel=0.01)


def test_unsteady_steps_widen_the_interval() -> None:
    steady, unsteady = (
        PREDICTOR.predict(utilised(mean_step_s=m), SHARES[:1], gpu="A100-40GB")[0]
        for m in (0.05, 0.1)
    )
    assert unsteady.slowdown.high > 1.9 * steady.slowdown.high


def test_a_utilisation_unlike_any_in_training_abstains() -> None:
    (made,) = PREDICTOR.predict(utilised(sm_utilization=0.01), SHARES[:1], gpu="A100-40GB")
    assert made.abstained is not None
    assert "sm is 0.01" in made.abstained


def test_a_whole_job_is_told_by_its_utilisation() -> None:
    """A fine-tuning of three minutes, a simulation of hours: their time is no step's."""
    for seconds in (181.0, 7200.0):
        (made,) = PREDICTOR.predict(utilised(step_s=seconds), SHARES[:1], gpu="A100-40GB")
        assert (made.method, made.abstained) == ("use", None)
        assert made.step_s.mid == pytest.approx(seconds * made.slowdown.mid)
        # A GPU that is idle 30 % of the time cannot be slowed down in that part.
        assert made.slowdown.mid <= 0.3 + 0.7 / 0.147


def test_a_whole_job_without_utilisation_gets_a_typical_slow_down_as_a_prior() -> None:
    bare = SliceWorkload(name="md", gpu="A100-40GB", points=(WholeRun(step_s=3600.0),))
    made = PREDICTOR.predict(bare, SHARES, gpu="A100-40GB")
    assert {one.method for one in made} == {"typical"}
    assert made[0].basis is Basis.PRIOR
    assert made[0].slowdown.low < 1.5
    assert made[0].slowdown.high > 6


def test_times_that_follow_no_load_model_abstain() -> None:
    (made,) = PREDICTOR.predict(jitter(sweep(), 0.6), SHARES[:1], gpu="A100-80GB")
    assert made.abstained is not None
    assert "no model of batches" in made.abstained


def test_a_load_that_was_not_measured_comes_from_the_load_model() -> None:
    (made,) = PREDICTOR.predict(sweep(batch=24.0), SHARES[-1:], gpu="A100-80GB")
    assert made.step_s.mid == pytest.approx(saturating_s(24, 1), rel=0.03)


def test_nothing_measured_at_the_load_is_a_sentence() -> None:
    asked = utilised().model_copy(update={"batch": 128.0})
    with pytest.raises(UsageError, match="batch 128"):
        PREDICTOR.predict(asked, SHARES, gpu="A100-40GB")


def test_predicting_imports_nothing_of_training() -> None:
    program = (
        "import sys, berth.policies.mig.recommend\n"
        "import berth.predictor.families.slices.bundle as b; b.load()\n"
        "print(*[m for m in ('torch', 'xgboost', 'pandas', 'sklearn', 'scipy') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_a_run_beyond_what_the_hardware_explains_is_an_accident() -> None:
    accident = SliceProbe(batch=64, profile="1g.5gb", step_s=0.05 * 12.9)
    told = utilised(probes=(accident,))
    plain = PREDICTOR.predict(utilised(), SHARES, gpu="A100-40GB")
    informed = PREDICTOR.predict(told, SHARES, gpu="A100-40GB", probes=((SHARES[0], accident),))
    assert [p.slowdown.mid for p in informed] == [p.slowdown.mid for p in plain]
    assert [p.slowdown for p in informed[1:]] == [p.slowdown for p in plain[1:]]
    own = informed[0]
    assert own.basis is not Basis.MEASURED
    assert own.slowdown.high == pytest.approx(12.9)
