"""Times of operators: finite, above the roof, growing with the work, on any GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.predictor.families.graph.operators.calls import (
    CallKind,
    Calls,
    convolutions,
    linears,
    products,
    vectors,
)
from berth.predictor.families.graph.operators.physics import (
    KERNEL_S,
    Places,
    PowerLimit,
    roof_seconds,
    utilisation,
)
from berth.predictor.families.graph.operators.predictor import OperatorModel, operator_model
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import Unit, unit_named, units

GPUS = tuple(u for u in units({}).values() if (u.sheet.generation or 0) >= 6)
"""Older ones are unlike all that were measured."""
NO_LAW = PowerLimit(20.0, 0.0)
SIZES = 2.0 ** np.arange(40)
GROWING: dict[str, Callable[[], Calls]] = {
    "linear rows": lambda: linears(SIZES, 1024, 1024),
    "linear inner": lambda: linears(1024, 1024, SIZES),
    "groups": lambda: products(SIZES, 128, 128, 64),
    "images": lambda: convolutions(SIZES, 64, 64, 56, 56),
    "softmax rows": lambda: vectors(CallKind.SOFTMAX, SIZES, 1024),
    "elements": lambda: vectors(CallKind.UNARY, SIZES, 1024),
    "normalised rows": lambda: vectors(CallKind.NORMALISATION, SIZES, 1024),
}


def of_sheet(unit: Unit, **changes: object) -> Unit:
    return replace(unit, sheet=unit.sheet.model_copy(update=changes))


@pytest.fixture(scope="module")
def model() -> OperatorModel:
    return operator_model()


@pytest.mark.parametrize("name", GROWING)
def test_more_work_takes_longer_whatever_the_gpu(model: OperatorModel, name: str) -> None:
    logs = np.log(model.seconds(GROWING[name](), GPUS))
    assert np.isfinite(logs).all()
    # Kernels change with the size, so a step of two may save a little; one of 16 must not.
    assert (logs[:, 1:] - logs[:, :-1]).min() > np.log(0.8)
    assert (logs[:, 4:] - logs[:, :-4]).min() > np.log(0.95)
    assert (logs[:, -1] - logs[:, 0]).min() > np.log(1e3)


size = st.integers(min_value=0, max_value=2**40)


@settings(max_examples=examples(60), deadline=None)
@given(kind=st.sampled_from(CallKind), sizes=st.tuples(size, size, size, size))
def test_any_shape_takes_a_finite_time_above_its_roof(
    kind: CallKind, sizes: tuple[int, int, int, int]
) -> None:
    groups, rows, columns, inner = (np.array([float(x)]) for x in sizes)
    work, moved = 2 * groups * rows * columns * inner, 4 * groups * rows * columns
    calls = Calls(np.array([int(kind)]), groups, rows, columns, inner, work, moved)
    found = operator_model().seconds(calls, GPUS)
    assert np.isfinite(found).all()
    assert (found > KERNEL_S).all()
    roof = roof_seconds(calls, Places.of(GPUS, Numbers.FP32, NO_LAW))
    assert (found >= KERNEL_S + roof * (1 - 1e-9)).all()


def test_utilisation_stays_within_one_whatever_the_trees_say() -> None:
    found = utilisation(np.array([-1e300, -50.0, 0.0, 50.0, 1e300]))
    assert ((found > 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


def test_what_is_not_known_of_a_gpu_leaves_a_sane_time(model: OperatorModel) -> None:
    calls = Calls.joined(linears(4096, 4096, 4096), vectors(CallKind.UNARY, 4096, 4096))
    gpu = unit_named("a100-pcie-40gb")
    bare = of_sheet(gpu, power_w=None, process_nm=None, isa=None)
    known, unknown = model.seconds(calls, [gpu, bare])
    assert unknown == pytest.approx(known, rel=0.5)


def test_a_gpu_that_cannot_power_its_peak_is_slower(model: OperatorModel) -> None:
    calls = linears(8192, 8192, 8192)
    fast = unit_named("a100-pcie-40gb")
    starved = of_sheet(fast, power_w=40.0)
    assert model.seconds(calls, [starved])[0, 0] > 2 * model.seconds(calls, [fast])[0, 0]
    assert PowerLimit(20.0, 1.0).share(starved) < PowerLimit(20.0, 1.0).share(fast) == 1.0
    assert NO_LAW.share(starved) == 1.0


def test_half_precision_is_no_slower_in_products(model: OperatorModel) -> None:
    calls = linears(8192, 8192, 8192)
    half = replace(calls, moved_bytes=calls.moved_bytes / 2)
    places: list[Unit] = [unit_named("h100-sxm-80gb"), unit_named("l4-24gb")]
    assert (model.seconds(half, places, Numbers.FP16) < 0.5 * model.seconds(calls, places)).all()


def test_nothing_takes_nothing(model: OperatorModel) -> None:
    none = linears(np.zeros(0), np.zeros(0), np.zeros(0))
    assert model.seconds(none, GPUS).shape == (len(GPUS), 0)
    assert model.seconds(linears(1, 1, 1), []).shape == (0, 1)
