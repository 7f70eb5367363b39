"""At least as good in every respect: a partial order over all devices and their slices."""

from __future__ import annotations

import numpy as np
import pytest

from berth.pilot.platform import Precision
from berth.predictor.hardware import platforms
from berth.predictor.hardware.catalogue import devices, get
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.dominance import dominates, figures
from berth.predictor.hardware.mig.slices import every_slice
from berth.predictor.hardware.unit import Unit, unit_of, units

KNOWN = {**platforms.shipped()} | {p.name: p for p in every_slice(platforms.shipped())}
UNITS = units(KNOWN)
EVERY: tuple[DataSheet | Unit, ...] = (*devices().values(), *UNITS.values())
LEARNING = frozenset({Precision.FP32, Precision.BF16, Precision.FP16, Precision.FP8})


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("of", [frozenset(Precision), LEARNING], ids=["all", "learning"])
def test_it_is_a_partial_order(of: frozenset[Precision], linked: bool) -> None:
    order = np.array([[dominates(a, b, of, linked=linked) for b in EVERY] for a in EVERY])
    assert order.diagonal().all()
    steps = order.astype(np.int64)
    assert (order | ~(steps @ steps > 0)).all(), "not transitive"
    for i, k in np.argwhere(order & order.T):
        assert EVERY[i] == EVERY[k] or figures(EVERY[i], of, linked=linked) == figures(
            EVERY[k], of, linked=linked
        )
    # An order that says nothing would pass as well.
    assert order.sum() > 10 * len(EVERY)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("h200-sxm-141gb", "h100-sxm-80gb"),
        ("h100-sxm-80gb", "h100-pcie-80gb"),
        ("h100-sxm-80gb", "a100-sxm-80gb"),
        ("a100-sxm-80gb", "a100-sxm-40gb"),
        ("a100-sxm-80gb", "a100-pcie-80gb"),
        ("a100-sxm-80gb", "v100-sxm2-32gb"),
        ("mi300x-192gb", "mi250-128gb"),
        ("tpu-v6e-32gb", "tpu-v5e-16gb"),
    ],
)
def test_a_better_data_sheet_is_better(better: str, worse: str) -> None:
    assert dominates(get(better), get(worse))
    assert not dominates(get(worse), get(better))


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ("mi300x-192gb", "a100-sxm-80gb", "another software"),
        ("max-1550-128gb", "max-1550-128gb-early", "another software"),
        ("b200-sxm-180gb", "h100-sxm-80gb", "less fp64"),
        ("rtx-5090-32gb", "v100-sxm2-16gb", "a slower link"),
        ("h200-sxm-141gb", "jetson-agx-orin-64gb", "peaks that nobody published"),
        ("jetson-agx-orin-64gb", "p4-8gb", "peaks that nobody published"),
    ],
)
def test_devices_that_cannot_be_ordered(a: str, b: str, why: str) -> None:
    assert not dominates(get(a), get(b)), why
    assert not dominates(get(b), get(a)), why


def test_only_the_precisions_that_are_asked_for_count() -> None:
    b200, h100 = get("b200-sxm-180gb"), get("h100-sxm-80gb")
    assert dominates(b200, h100, LEARNING)
    assert not dominates(b200, h100)


def test_the_link_counts_only_where_it_is_used() -> None:
    pcie, sxm = get("a100-pcie-80gb"), get("a100-sxm-40gb")
    assert not dominates(pcie, sxm)
    assert dominates(pcie, sxm, linked=False)


def test_slices_of_one_gpu_are_ordered_by_their_shares() -> None:
    order = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    found = [unit_of(KNOWN[f"h100-80gb-mig-{profile}"], KNOWN) for profile in order]
    slices = [unit for unit in found if unit is not None]
    assert len(slices) == len(order)
    for place, small in enumerate(slices):
        assert dominates(UNITS["h100-80gb"], small)
        assert not dominates(small, UNITS["h100-80gb"])
        for large in slices[place + 1 :]:
            assert dominates(large, small)
            assert not dominates(small, large)


def test_a_platform_and_its_data_sheet_are_equal() -> None:
    unit = UNITS["h100-80gb"]
    assert dominates(unit, unit.sheet)
    assert dominates(unit.sheet, unit)
