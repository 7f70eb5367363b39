"""A recommended slice fits, is the smallest or the best of those, and can be made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slice_workloads import GIB, sweep, utilised
from thorough import examples

from berth.pilot.errors import UsageError
from berth.policies.mig import GpuState, Layout, known_gpus, lookup
from berth.policies.mig.layout import enumerate_states
from berth.policies.mig.on_slices import of_slice_workload
from berth.policies.mig.planner import plan
from berth.policies.mig.recommend import (
    Aim,
    Recommendation,
    SliceTerms,
    demand_on,
    makeable,
    recommend,
)
from berth.predictor.families.slices.bundle import load
from berth.predictor.families.slices.predictor import SlicePredictor
from berth.predictor.families.slices.workload import SliceProbe, SliceWorkload

PREDICTOR = SlicePredictor(load())
A100 = lookup("A100-40GB")
AIMS = [Aim.SMALLEST, Aim.FASTEST, Aim.THROUGHPUT, Aim.ENERGY, Aim.COST]

needs = st.tuples(st.floats(0.1, 50), st.floats(1, 1.6), st.floats(1, 1.6)).map(
    lambda t: (t[0], t[0] * t[1], t[0] * t[1] * t[2])
)


def ask(
    workload: SliceWorkload, terms: SliceTerms | None = None, *, possible: set[str] | None = None
) -> Recommendation:
    geometry = lookup(workload.gpu)
    known = of_slice_workload(workload, geometry, PREDICTOR)
    return recommend(known, geometry, terms or SliceTerms(), possible=possible)


@settings(deadline=None, max_examples=examples(60))
@given(needs, st.sampled_from(AIMS))
def test_what_is_recommended_has_the_memory_that_may_be_needed(
    need: tuple[float, float, float], aim: Aim
) -> None:
    answer = ask(utilised(memory_gib=need), SliceTerms(aim, price_per_hour=3.0))
    for choice in (answer.smallest, answer.best):
        assert choice is None or choice.profile.memory_bytes >= need[2] * GIB
    if answer.best is None:
        assert need[2] * GIB > max(p.memory_bytes for p in A100.profiles)
    else:
        assert answer.smallest is not None
        assert all(
            c.profile.memory_bytes < need[2] * GIB
            or c.profile.memory_slices >= answer.smallest.profile.memory_slices
            for c in answer.choices
        )


@settings(deadline=None, max_examples=examples(60))
@given(needs, st.floats(1, 4), st.sampled_from(AIMS))
def test_more_memory_never_gets_a_smaller_slice(
    need: tuple[float, float, float], factor: float, aim: Aim
) -> None:
    more = tuple(v * factor for v in need)
    terms = SliceTerms(aim, price_per_hour=3.0)
    one = ask(utilised(memory_gib=need), terms)
    other = ask(utilised(memory_gib=more), terms)  # type: ignore[arg-type]
    if other.smallest is not None:
        assert one.smallest.profile.memory_bytes <= other.smallest.profile.memory_bytes
    fitting = {c.profile.name for c in other.choices if c.fits}
    assert fitting <= {c.profile.name for c in one.choices if c.fits}


@pytest.mark.parametrize("aim", AIMS)
def test_the_same_question_has_the_same_answer(aim: Aim) -> None:
    terms = SliceTerms(aim, price_per_hour=3.0)
    assert ask(utilised(), terms) == ask(utilised(), terms)


@settings(deadline=None, max_examples=examples(40))
@given(st.sets(st.sampled_from([p.name for p in A100.profiles])), st.sampled_from(AIMS))
def test_only_possible_slices_are_recommended(possible: set[str], aim: Aim) -> None:
    answer = ask(utilised(), SliceTerms(aim, price_per_hour=3.0), possible=possible)
    assert answer.best is None or answer.best.profile.name in possible
    assert answer.smallest is None or answer.smallest.profile.name in possible
    if answer.best is None:
        assert answer.reason.startswith("no slice is left")


def test_each_aim_is_best_at_what_it_says() -> None:
    answers = {aim: ask(utilised(), SliceTerms(aim, price_per_hour=3.0)) for aim in AIMS}
    allowed = [c for c in answers[Aim.FASTEST].choices if c.refused is None]
    best = {aim: answer.best for aim, answer in answers.items()}
    assert all(best.values())
    assert best[Aim.SMALLEST] == answers[Aim.SMALLEST].smallest
    assert best[Aim.FASTEST].prediction.time_s.high == min(  # type: ignore[union-attr]
        c.prediction.time_s.high for c in allowed
    )
    assert best[Aim.ENERGY].prediction.energy_j.mid == min(  # type: ignore[union-attr]
        c.prediction.energy_j.mid for c in allowed if c.prediction.energy_j
    )
    assert best[Aim.COST].price.mid == min(  # type: ignore[union-attr]
        c.price.mid for c in allowed if c.price
    )
    rate = best[Aim.THROUGHPUT].throughput_per_s.mid / best[Aim.THROUGHPUT].part  # type: ignore[union-attr]
    assert rate == max(c.throughput_per_s.mid / c.part for c in allowed)


@settings(deadline=None, max_examples=examples(40))
@given(st.floats(0.01, 1.0), st.floats(1, 5))
def test_a_latency_limit_is_kept_as_predicted_and_looser_ones_allow_more(
    limit_s: float, looser: float
) -> None:
    tight = ask(utilised(), SliceTerms(latency_limit_s=limit_s))
    loose = ask(utilised(), SliceTerms(latency_limit_s=limit_s * looser))
    if tight.best is not None:
        assert tight.best.prediction.time_s.mid <= limit_s
        assert ("as predicted" in tight.reason) is (tight.best.prediction.time_s.high > limit_s)
        assert loose.smallest.profile.memory_slices <= tight.smallest.profile.memory_slices


def test_without_a_memory_need_only_the_whole_gpu_is_certain() -> None:
    answer = ask(utilised(memory_gib=None))
    assert answer.smallest.profile.name == "7g.40gb"
    assert all("not known" in (c.refused or "") for c in answer.choices[:-1])


def test_media_variants_are_not_recommended() -> None:
    assert all(c.profile.is_plain for c in ask(utilised()).choices)


@pytest.mark.parametrize("gpu", [g for g in known_gpus() if lookup(g).profiles])
def test_every_known_gpu_gets_an_answer(gpu: str) -> None:
    answer = ask(utilised(gpu=gpu, memory_gib=(0.5, 1, 2)))
    assert answer.smallest is not None
    mids = [c.prediction.slowdown.mid for c in answer.choices]
    assert mids[-1] == 1
    assert all(m >= 1 for m in mids)


def test_the_answer_feeds_the_planner() -> None:
    answer = ask(utilised(), SliceTerms(Aim.THROUGHPUT))
    wanted = demand_on([answer], runtime_s=3600, count=7)
    assert {o.profile for o in wanted.options} == {
        c.profile.name for c in answer.choices if c.refused is None
    }
    planned = plan([GpuState("n/0", A100), GpuState("n/1", A100)], [wanted], "jobs,throughput")
    assert planned.placed == 7
    assert all(o.energy_j is not None and o.energy_j > 0 for o in wanted.options)


def test_no_slice_is_no_demand() -> None:
    answer = ask(utilised(memory_gib=(90, 95, 99)))
    assert answer.best is None
    with pytest.raises(UsageError, match="no slice"):
        demand_on([answer])


@pytest.mark.parametrize(
    ("workload", "terms", "words"),
    [
        (utilised(gpu="A30"), SliceTerms(), "measured on"),
        (
            utilised(probes=(SliceProbe(profile="9g.1gb", step_s=1.0),)),
            SliceTerms(),
            "no MIG profile",
        ),
        (utilised(), SliceTerms(Aim.COST), "price"),
        (utilised(), SliceTerms(price_per_hour=-1.0), "price"),
        (utilised(), SliceTerms(latency_limit_s=0.0), "latency"),
        (utilised(), SliceTerms(latency_limit_s=float("nan")), "latency"),
        (sweep(), SliceTerms(Aim.ENERGY), "power"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(
    workload: SliceWorkload, terms: SliceTerms, words: str
) -> None:
    geometry = A100 if workload.gpu != "A100-80GB" else lookup("A100-80GB")
    with pytest.raises(UsageError, match=words):
        recommend(of_slice_workload(workload, geometry, PREDICTOR), geometry, terms)


def test_an_unsure_prediction_falls_back_to_the_smallest_and_says_so() -> None:
    answer = ask(utilised(sm_utilization=0.01), SliceTerms(Aim.THROUGHPUT))
    assert answer.best == answer.smallest
    assert "no prediction" in answer.reason


layouts = st.sampled_from(enumerate_states(A100.plain()).layouts)


@given(st.lists(st.tuples(layouts, st.booleans()), max_size=4), st.booleans())
def test_makeable_profiles_are_those_that_the_fleet_has_or_can_be_cut_to(
    gpus: list[tuple[Layout, bool]], recut: bool
) -> None:
    fleet = [GpuState(f"n/{i}", A100, layout, mig_enabled=on)
             for i, (layout, on) in enumerate(gpus)]  # fmt: skip
    present = {i.profile for s in fleet if s.mig_enabled for i in s.layout.instances}
    able = {p.name for p in A100.profiles if p.is_plain} if any(on for _, on in gpus) else set()
    assert makeable(fleet, recut=recut) == (present | able if recut else present)


def test_a_probe_on_a_named_slice_is_used() -> None:
    slow = SliceProbe(batch=64, profile="2g.10gb", step_s=0.05 * 3.3)
    with_probe = ask(utilised(probes=(slow,)))
    plain = ask(utilised())
    assert with_probe.choices[0].prediction.slowdown.mid > plain.choices[0].prediction.slowdown.mid
