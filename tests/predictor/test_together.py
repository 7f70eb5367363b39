"""Runs elsewhere: what they make known, what they move, and the words of the advice."""

from __future__ import annotations

import math

import pytest

from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
)
from berth.predictor.core.value_of_run import GPU_CORRELATION
from berth.predictor.families.program.joint import joint_of, updated


def prediction(platform: str, runtime_s: float, factor: float, *, gpu: bool = True) -> Prediction:
    runtime = Interval(runtime_s / factor, runtime_s, runtime_s * factor)
    return Prediction(
        workload="p",
        platform=platform,
        cores=0 if gpu else 4,
        gpus=1 if gpu else 0,
        basis=Basis.MEASURED if platform == "home" else Basis.PRIOR,
        speedup=Interval(8.0 / runtime.high, 8.0 / runtime.mid, 8.0 / runtime.low),
        runtime_s=runtime,
        memory=MemoryUse(Interval(1.0, 1.0, 1.0)),
        energy_j=runtime.scaled(300.0),
        bound=Bound.MEMORY,
        abstained=None if platform == "home" else "too wide",
    )


def three() -> list[Prediction]:
    return [
        prediction("home", 8.0, 1.05, gpu=False),
        prediction("a", 2.0, 3.0),
        prediction("b", 1.0, 3.0),
        prediction("cpu", 4.0, 3.0, gpu=False),
    ]


def test_a_run_elsewhere_is_measured_there() -> None:
    found = updated(three(), {"a": Interval(3.9, 4.0, 4.1)})[1]
    assert found.basis is Basis.MEASURED
    assert found.abstained is None
    assert found.runtime_s.mid == 4.0
    assert found.speedup.mid == pytest.approx(2.0)
    assert found.energy_j is not None
    assert found.energy_j.mid == pytest.approx(1200.0)


def test_gpus_go_along_and_cpus_hardly() -> None:
    before = three()
    _, _, b, cpu = updated(before, {"a": Interval(4.0, 4.0, 4.0)})
    assert b.runtime_s.mid == pytest.approx(2.0**GPU_CORRELATION, rel=0.03)
    assert cpu.runtime_s.mid == pytest.approx(4.0 * 2**0.1, rel=0.03)
    assert b.basis is Basis.PRIOR
    assert b.runtime_s.high / b.runtime_s.mid < 3.0 ** math.sqrt(1 - GPU_CORRELATION**2) * 1.05
    assert cpu.runtime_s.high / cpu.runtime_s.mid > 2.9


def test_the_measured_platform_never_moves() -> None:
    assert updated(three(), {"a": Interval(4.0, 4.0, 4.0)})[0].runtime_s == three()[0].runtime_s


def test_a_useless_interval_does_not_drown_the_others() -> None:
    wide = joint_of([*three(), prediction("vague", 4.0, 1e6)])
    assert wide.deviation[-1] == pytest.approx(math.log(20) / 1.6449)


def test_a_platform_is_predicted_once() -> None:
    with pytest.raises(ValueError, match="one prediction"):
        joint_of([*three(), prediction("a", 1.0, 2.0)])
