"""Nodes of one processor: the ceilings that explain the suite are taken, whoever's they are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from berth.pilot.bench import times_rates
from berth.pilot.platform import Signature
from berth.plugin.calibrate.learning import Measured, as_at_home, with_better_ceilings
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE, verify
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware import platforms

GENOA = platforms.load()["epyc-genoa-vm"].model_copy(update={"processor": "AMD EPYC"})
PRIOR = verify(DEFAULT_BUNDLE).priors["cpu"]


def kind(name: str, factor: float, signature: Signature | None = None) -> Measured:
    """Every kernel takes ``factor`` times as long as on the reference, within 3 %."""
    chance = random.Random(5)  # noqa: S311 - data, not secrets
    seconds = {
        kernel: factor * p.runtime.median_s * (chance.gauss(1, 0.03) if factor != 1 else 1.0)
        for kernel, p in list(suite_profiles().items())[:20]
        if p.runtime is not None
    }
    changed = {"name": name, "signature": signature or GENOA.signature}
    return Measured(GENOA.model_copy(update=changed), seconds, {})


def misled() -> Signature:
    """What a benchmark finds on a node that is disturbed for a part of its time."""
    rate = GENOA.signature.int_ops_core_per_s
    assert rate is not None
    return GENOA.signature.model_copy(update={"int_ops_core_per_s": rate / 4})


def ceilings(slow: Measured) -> Signature:
    kinds = {"quick": kind("quick", 1), "slow": slow}
    return with_better_ceilings(kinds, "quick", platforms.load(), PRIOR)["slow"].platform.signature


def test_a_misled_benchmark_is_replaced_where_the_suite_says_so() -> None:
    found = ceilings(kind("slow", 1.6, misled()))
    assert found.int_ops_core_per_s == GENOA.signature.int_ops_core_per_s
    assert "a core's rates" in found.measured_on


def test_a_benchmark_that_is_as_good_and_other_processors_stay() -> None:
    same = kind("slow", 1.6)
    assert ceilings(same) is same.platform.signature
    slow = kind("slow", 1.6, misled())
    other = replace(slow, platform=slow.platform.model_copy(update={"processor": "AMD EPYC 2"}))
    assert ceilings(other).int_ops_core_per_s == misled().int_ops_core_per_s


def test_how_rates_add_up_over_cores_stays() -> None:
    own = GENOA.signature.model_copy(update={"flops_f64_core_per_s": 1e9, "flops_f64_per_s": 3e9})
    home = GENOA.signature.model_copy(update={"flops_f64_core_per_s": 2e9})
    moved = as_at_home(own, home)
    assert (moved.flops_f64_core_per_s, moved.flops_f64_per_s) == (2e9, pytest.approx(6e9))
    assert moved.kernel_times_s == own.kernel_times_s
    assert as_at_home(home, home).memory == home.memory


def test_rates_of_a_node_with_a_quota_are_lent_to_a_whole_one_without_it() -> None:
    whole = GENOA.signature.model_copy(update={"processor_share": 1.0})
    quota = times_rates(GENOA.signature, 0.5).model_copy(update={"processor_share": 0.5})
    lent = as_at_home(whole, quota)
    assert lent.flops_f64_core_per_s == pytest.approx(whole.flops_f64_core_per_s)
    assert lent.int_ops_core_per_s == pytest.approx(whole.int_ops_core_per_s)
    assert lent.processor_share == 1.0
    assert lent.memory[-1].total_bytes_per_s == pytest.approx(whole.memory[-1].total_bytes_per_s)
