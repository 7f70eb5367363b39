"""Decisions: the best of what passes every hard constraint, and why not the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import (
    BOTH,
    CPU,
    DEFAULTS,
    GIB,
    GPU,
    NOW_S,
    PREDICTED,
    H,
    cpu,
    curve,
    decided,
    forecast,
    gpu,
    interval,
    ranked_as,
    request,
    state,
    states,
)

from berth.policies.codes import Code
from berth.policies.decide import Decider
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import Candidate, Decision, Request, Translation
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, MemoryUse, PredictionCurve

CHEAPEST = PolicySettings(objective="cheapest")


def run(
    asked: Request | None = None,
    candidates: tuple[Candidate, ...] = BOTH,
    predicted: Forecast | None = PREDICTED,
    settings: PolicySettings = DEFAULTS,
    **state_changes: Any,
) -> Decision:
    now = states(*candidates, **state_changes)
    return decided(asked, candidates, predicted, now=now, settings=settings)


def why_not(decision: Decision, name: str) -> tuple[str | None, str | None]:
    ranked = ranked_as(decision, name)
    assert ranked.score is None
    return ranked.code, ranked.excluded


def test_fastest_takes_the_shortest_time() -> None:
    decision = run()
    assert decision.chosen == "gpu"
    assert decision.code == "placed"
    assert decision.reason == (
        "gpu (1 GPU, 8 cores of gpu) is predicted fastest: 20 s (13.3 s to 30 s), "
        "5.0 times faster than cpu."
    )
    assert [r.candidate for r in decision.ranked] == ["gpu", "cpu"]


def test_cheapest_takes_price_times_time() -> None:
    # 8 cores x 0.05 x 100 s = 0.0111; one GPU x 3 x 20 s = 0.0167.
    decision = run(settings=CHEAPEST)
    assert decision.chosen == "cpu"
    assert decision.ranked[0].cost == pytest.approx(8 * 0.05 * 100 / 3600)
    assert decision.ranked[1].cost == pytest.approx(3.0 * 20 / 3600)


def test_cheapest_rules_out_what_has_no_price() -> None:
    decision = run(candidates=(CPU, gpu(price_per_gpu_hour=None)), settings=CHEAPEST)
    assert why_not(decision, "gpu")[0] == Code.NO_PRICE


def test_balanced_weighs_time_and_cost() -> None:
    def chosen(time: float, cost: float) -> str | None:
        weights = Weights(time=time, cost=cost)
        return run(settings=PolicySettings(objective="balanced", weights=weights)).chosen

    assert chosen(1.0, 0.1) == "gpu"
    assert chosen(0.1, 1.0) == "cpu"


def test_edit_says_all_that_must_change_and_nothing_else() -> None:
    edit = run().edit
    assert (edit.queue, edit.gres, edit.constraint, edit.time_limit_s) == (
        "gpu", "gpu:h100:1", None, None,
    )  # fmt: skip
    assert (edit.resources.tasks, edit.resources.cpus_per_task, edit.resources.gpus) == (1, 8, 1)
    unchanged = run(request(queue="cpu"), candidates=(CPU,)).edit
    assert (unchanged.queue, unchanged.resources, unchanged.gres) == (None, None, None)


def test_gres_counts_are_for_each_node() -> None:
    edit = run(request(gpus=6, tasks=6, gres="gpu:6"), candidates=(GPU,)).edit
    assert edit.gres == "gpu:h100:3"
    assert edit.resources.nodes == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"targets": ("cpu",)}, Code.CANNOT_RUN),
        ({"architecture": "aarch64"}, Code.WRONG_ARCHITECTURE),
        ({"instruction_sets": ("avx2", "avx512f")}, Code.INSTRUCTION_SET),
    ],
)
def test_never_where_the_program_cannot_run(changes: dict[str, Any], code: Code) -> None:
    assert why_not(run(predicted=replace(PREDICTED, **changes)), "gpu")[0] == code


NEEDS_AVX512 = replace(PREDICTED, instruction_sets=("avx512f",))


def test_where_it_ran_a_program_runs_whatever_it_seems_to_need() -> None:
    predicted = replace(NEEDS_AVX512, ran_on=("gpu",))
    ranked = ranked_as(run(predicted=predicted), "gpu")
    assert (ranked.excluded, ranked.guess, ranked.warning) == (None, False, None)


def test_a_place_that_may_lack_what_the_program_needs_comes_last_and_says_so() -> None:
    unknown = replace(GPU, instruction_sets=())
    has_it = replace(CPU, instruction_sets=("x86-64-v4",))
    decision = run(candidates=(has_it, unknown), predicted=NEEDS_AVX512)
    assert [row.candidate for row in decision.ranked] == ["cpu", "gpu"]
    assert decision.ranked[1].guess
    assert "avx512f" in (decision.ranked[1].warning or "")
    alone = run(candidates=(unknown,), predicted=NEEDS_AVX512)
    assert alone.chosen == "gpu"


def test_a_program_whose_instructions_have_no_name_stays_first_where_it_ran() -> None:
    unnamed = replace(PREDICTED, instruction_sets=("unknown",), ran_on=("cpu",))
    assert run(predicted=PREDICTED).chosen == "gpu"
    decision = run(predicted=unnamed)
    assert [row.candidate for row in decision.ranked] == ["cpu", "gpu"]
    warning = decision.ranked[1].warning or ""
    assert "instructions that the pilot could not name" in warning


def test_a_build_for_v3_never_goes_to_a_node_that_lacks_avx2() -> None:
    built = replace(PREDICTED, instruction_sets=("avx2", "bmi2"))
    old = replace(GPU, instruction_sets=("x86-64-v2", "avx"))
    assert why_not(run(candidates=(CPU, old), predicted=built), "gpu")[0] == Code.INSTRUCTION_SET
    new = replace(GPU, instruction_sets=("x86-64-v3",))
    assert run(candidates=(new,), predicted=built).chosen == "gpu"


@pytest.mark.parametrize(
    ("changes", "candidate", "code"),
    [
        ({"queue": "cpu"}, "gpu", Code.OTHER_QUEUE),
        ({"features": "avx512"}, "gpu", Code.OTHER_FEATURES),
        ({"features": "a|b"}, "gpu", Code.OTHER_FEATURES),
        ({"gres": "gpu:1", "gpus": 1}, "cpu", Code.OTHER_GRES),
        ({"gres": "gpu:a100:1", "gpus": 1}, "gpu", Code.OTHER_GRES),
        ({"gpus": 1}, "cpu", Code.OTHER_GRES),
        ({"gres": "craynetwork:1"}, "gpu", Code.OTHER_GRES),
        ({"pinned": ("gres",)}, "gpu", Code.OTHER_GRES),
        ({"allowed_queues": frozenset({"cpu"})}, "gpu", Code.QUEUE_NOT_ALLOWED),
    ],
)
def test_the_users_own_choices_and_rights_are_kept(
    changes: dict[str, Any], candidate: str, code: Code
) -> None:
    assert why_not(run(request(**changes)), candidate)[0] == code


def test_a_pinned_constraint_is_not_replaced_by_the_candidates() -> None:
    place = cpu(constraint="rome", features=("rome", "ib"))
    for asked in (request(pinned=("constraint",)), request(features="ib")):
        assert why_not(run(asked, candidates=(place,)), "cpu")[0] == Code.OTHER_FEATURES
    assert run(request(features="rome"), candidates=(place,)).chosen == "cpu"


def test_own_features_are_not_said_to_be_missing_where_all_nodes_have_them() -> None:
    """A place with a constraint of its own could be reached only by a change of the user's."""
    place = cpu(constraint="intel", features=("intel", "avx512"))
    asked = request(features="avx512")
    _, sentence = why_not(run(asked, candidates=(place,)), "cpu")
    assert sentence == (
        "you asked for nodes with avx512, which stays as it is: "
        "this place would need intel beside it"
    )
    _, sentence = why_not(run(request(features="gpu"), candidates=(place,)), "cpu")
    assert sentence == "you asked for nodes with gpu"


def test_features_that_all_nodes_have_are_met() -> None:
    place = cpu(features=("rome", "ib"))
    decision = run(request(features="rome&ib"), candidates=(place,))
    assert decision.chosen == "cpu"
    assert decision.edit.constraint is None


@pytest.mark.parametrize(
    ("gpus", "says"), [(1, "you asked for 1 GPU"), (2, "you asked for 2 GPUs")]
)
def test_gpus_that_were_asked_for_are_kept(gpus: int, says: str) -> None:
    assert why_not(run(asked=request(gpus=gpus)), "cpu") == ("other-gres", says)


@pytest.mark.parametrize("gres", ["none", "gpu:0", "gres/gpu:h200=0"])
def test_no_gpu_is_a_choice_too(gres: str) -> None:
    decision = run(asked=request(gres=gres))
    assert decision.chosen == "cpu"
    assert why_not(decision, "gpu") == ("other-gres", "you chose the resources (gres) yourself")


def test_asking_berth_to_choose_is_no_choice_of_a_partition() -> None:
    decision = run(request(queue="auto", wants_placement=True))
    assert decision.chosen == "gpu"
    assert decision.edit.queue == "gpu"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"allowed_users": frozenset({"bob"})}, Code.USER_NOT_ALLOWED),
        ({"allowed_accounts": frozenset({"chemistry"})}, Code.ACCOUNT_NOT_ALLOWED),
    ],
)
def test_the_sites_own_lists_are_kept(changes: dict[str, Any], code: Code) -> None:
    assert why_not(run(candidates=(CPU, gpu(**changes))), "gpu")[0] == code


def test_a_qos_must_be_allowed_there() -> None:
    places = (CPU, gpu(allowed_qos=frozenset({"normal"})))
    assert why_not(run(request(qos="high"), candidates=places), "gpu")[0] == Code.QOS_NOT_ALLOWED
    assert run(request(qos="normal"), candidates=places).chosen == "gpu"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(opted_out=True), Code.OPTED_OUT),
        (request(pinned=("nodelist",)), Code.PINNED_NODES),
        (request(pinned=("reservation",)), Code.PINNED_RESERVATION),
    ],
)
def test_some_requests_are_left_alone_altogether(asked: Request, code: Code) -> None:
    decision = run(asked)
    assert (decision.chosen, decision.edit, decision.ranked) == (None, None, ())
    assert decision.code == code


def test_without_a_profile_nothing_is_decided() -> None:
    decision = run(predicted=None)
    assert (decision.chosen, decision.code) == (None, "no-workload")


def test_memory_must_fit_by_its_upper_bound() -> None:
    # 40 GiB x 1.2 = 48 GiB
    program = forecast(curve("cpu", 800.0), curve("gpu", 20.0, gpus=True, needs_bytes=40.0 * GIB))
    assert run(predicted=program).chosen == "gpu"
    small = run(predicted=program, candidates=(CPU, gpu(gpu_memory_bytes=47 * GIB)))
    assert why_not(small, "gpu") == (
        "memory",
        "it may need 48.0 GiB of GPU memory; there is 47.0 GiB",
    )
    assert small.chosen == "cpu"


def test_memory_that_no_run_measured_fits_nowhere_for_certain_and_is_not_shown_as_a_number() -> (
    None
):
    program = forecast(
        curve("cpu", 800.0, memory=MemoryUse()),
        curve("gpu", 20.0, gpus=True, memory=MemoryUse()),
    )
    decision = run(predicted=program)
    assert decision.chosen is None
    code, why = why_not(decision, "gpu")
    assert code == "memory"
    assert why.startswith("its GPU memory was never measured (pilot it on a GPU, or")
    assert why_not(decision, "cpu") == (
        "memory",
        "its host memory is not known: no run measured it",
    )
    # A site that does not say how much there is lets it through, but no job asks for 909 TiB.
    any_size = cpu(memory_bytes_per_node=None)
    loose = run(predicted=program, candidates=(any_size,))
    assert loose.chosen == "cpu"
    assert [row.memory for row in loose.ranked] == [MemoryUse()]
    assert loose.edit.resources is None


@pytest.mark.parametrize(
    ("asked", "place", "code"),
    [
        ({"time_limit_s": 29.0}, {}, Code.TIME_OVER_LIMIT),
        ({}, {"default_time_s": 29.0}, Code.TIME_OVER_LIMIT),
        ({}, {"max_time_s": 29.0}, Code.TIME_OVER_QUEUE),
        ({"time_limit_s": 49 * H}, {}, Code.ASKED_TIME_OVER_QUEUE),
    ],
)
def test_time_must_fit_by_its_upper_bound(
    asked: dict[str, Any], place: dict[str, Any], code: Code
) -> None:
    decision = run(request(**asked), candidates=(gpu(**place),))
    assert (decision.chosen, decision.code) == (None, code)


def test_a_time_limit_is_raised_only_where_the_site_says_so() -> None:
    settings = PolicySettings(may_raise_time_limit=True)
    asked = request(time_limit_s=29.0)
    decision = run(asked, candidates=(GPU,), settings=settings)
    assert decision.edit.time_limit_s == 60.0  # 30 s x 1.2, in whole minutes
    tight = run(asked, candidates=(gpu(max_time_s=40.0),), settings=settings)
    assert tight.edit.time_limit_s == 40.0  # never over the partition's
    enough = run(request(time_limit_s=H), candidates=(GPU,), settings=settings)
    assert enough.edit.time_limit_s is None


def test_a_prior_is_not_enforced_unless_the_site_says_so() -> None:
    program = forecast(curve("cpu", 800.0), curve("gpu", 20.0, gpus=True, basis=Basis.PRIOR))
    assert why_not(run(predicted=program), "gpu")[0] == Code.PRIOR_ONLY
    assert run(predicted=program, settings=PolicySettings(allow_prior=True)).chosen == "gpu"
    by_hand = run(predicted=program, settings=PolicySettings(strict=False))
    assert [(r.candidate, r.guess) for r in by_hand.ranked] == [("cpu", False), ("gpu", True)]
    assert by_hand.ranked[1].warning == "prior only: no data for this platform"
    assert by_hand.reason.endswith("; of other places there are only priors or guesses.")


def test_what_berth_does_not_know_it_does_not_do() -> None:
    wide = forecast(curve("gpu", 20.0, gpus=True, factor=6.0))
    assert run(predicted=wide, candidates=(GPU,)).code == Code.INTERVAL_TOO_WIDE
    vague = forecast(curve("gpu", 20.0, gpus=True, abstained="unlike any program seen"))
    decision = run(predicted=vague, candidates=(GPU,))
    assert decision.code == Code.OUT_OF_RANGE
    assert decision.reason == "Left as it is: unlike any program seen."
    assert run(predicted=vague, candidates=(CPU,)).code == Code.NO_PREDICTION


def test_by_hand_a_guess_is_shown_after_every_prediction() -> None:
    vague = curve("gpu", 1.0, gpus=True, abstained="unlike any program seen")
    settings = PolicySettings(strict=False)
    decision = run(predicted=forecast(curve("cpu", 800.0), vague), settings=settings)
    assert [(r.candidate, r.guess) for r in decision.ranked] == [("cpu", False), ("gpu", True)]
    alone = run(predicted=forecast(vague), candidates=(GPU,), settings=settings)
    assert alone.chosen == "gpu"
    assert alone.ranked[0].warning == "only a guess: unlike any program seen"


def test_a_state_that_is_old_missing_or_down_rules_out() -> None:
    assert run(as_of_s=NOW_S - 121).code == Code.STALE_STATE
    assert run(up=False).code == Code.DOWN
    assert run(usable_nodes=0).code == Code.DOWN
    assert decided(candidates=(GPU,), now={}).code == Code.STALE_STATE
    assert decided(candidates=(GPU,), now={}, strict=False).chosen == "gpu"


def test_drained_nodes_do_not_count() -> None:
    decision = run(request(gpus=8, tasks=8), candidates=(GPU,), usable_nodes=1)
    assert decision.code == Code.TOO_FEW_RESOURCES
    assert decision.ranked[0].excluded == "it needs 2 nodes, and 1 can be used now"


def test_different_reasons_are_summed_up() -> None:
    decision = run(replace(request(queue="gpu"), time_limit_s=1.0))
    assert decision.code == Code.NO_CANDIDATE
    assert decision.reason.startswith("Left as it is: no place fits; ")


def test_the_place_that_passed_most_checks_is_named() -> None:
    """Who asked for GPUs reads why the GPU place does not do, not that cpu has none."""
    asked = replace(request(gpus=1), gres="gpu:1", time_limit_s=1.0)
    others = tuple(replace(CPU, name=name, queue=name) for name in ("a", "b", "c"))
    reason = run(asked, candidates=(*others, GPU)).reason
    assert reason.startswith("Left as it is: no place fits; gpu came nearest: it may take ")
    assert run(asked, candidates=others).reason == "Left as it is: you asked for gpu:1."


def test_places_that_can_never_run_the_program_do_not_hide_the_reason() -> None:
    on_cpus = replace(forecast(curve("cpu", 10.0), curve("gpu", 10.0)), targets=("cpu",))
    typo = run(request(queue="typo"), predicted=on_cpus)
    assert typo.code == Code.OTHER_QUEUE
    assert typo.reason == (
        "Left as it is: you chose typo, where the site file has no place (it has some in cpu, gpu)."
    )
    there = run(request(queue="gpu"), predicted=on_cpus)
    assert there.reason.startswith("Left as it is: you chose gpu; gpu: the program runs on cpu")
    many = run(request(tasks=10**12), predicted=on_cpus)
    assert many.code == Code.TOO_FEW_RESOURCES
    assert "the program runs" not in many.reason
    free = replace(CPU, price_per_core_hour=None)
    by_price = PolicySettings(objective="cheapest")
    prices = run(predicted=on_cpus, candidates=(free, GPU), settings=by_price)
    assert prices.code == Code.NO_PRICE
    assert prices.reason == "Left as it is: the site file gives no price for it."


def test_of_places_that_take_too_long_the_shortest_is_named() -> None:
    reason = run(replace(request(), time_limit_s=1.0)).reason
    assert reason.startswith("Left as it is: no place fits; gpu came nearest: it may take 30")


def test_a_closed_queue_is_said_to_be_closed_even_if_it_is_not_offered_to_the_user() -> None:
    asked = replace(request(), allowed_queues=frozenset({"other"}))
    shut = "INACTIVE: takes no jobs and starts none"
    decision = run(asked, candidates=(GPU,), up=False, closed=shut)
    assert why_not(decision, "gpu") == (Code.DOWN, f"{GPU.queue} is {shut}")
    decision = run(asked, candidates=(GPU,))
    assert why_not(decision, "gpu") == (Code.QUEUE_NOT_ALLOWED, f"you may not use {GPU.queue}")
    decision = run(usable_nodes=0, candidates=(GPU,))
    assert why_not(decision, "gpu") == (Code.DOWN, f"{GPU.queue} has no working node")


def test_no_candidates_is_no_placement() -> None:
    decision = run(candidates=())
    assert (decision.chosen, decision.code) == (None, Code.NO_CANDIDATE)


def test_waiting_counts_only_where_the_site_says_so() -> None:
    there = states(CPU, GPU) | {"gpu": state(idle_gpus=0, pending_jobs=50)}

    def chosen(wait: float) -> str | None:
        return decided(now=there, weights=Weights(wait=wait)).chosen

    assert chosen(0.0) == "gpu"
    assert chosen(1.0) == "cpu"


def test_ties_go_to_the_cheaper_then_by_name() -> None:
    a, b = cpu("a", platform="cpu"), cpu("b", platform="cpu")
    assert run(candidates=(b, a)).chosen == "a"
    cheap = cpu("b", platform="cpu", price_per_core_hour=0.01)
    assert run(candidates=(cheap, a)).chosen == "b"


def test_two_candidates_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Decider((CPU, CPU), PolicySettings())


def test_a_forecast_made_anew_is_looked_at_anew() -> None:
    # Same workload, same bundle: the GPU platform was measured again and is slower than thought.
    before = forecast(curve("cpu", 800.0), curve("gpu", 20.0, gpus=True), digest="x")
    after = forecast(curve("cpu", 800.0), curve("gpu", 900.0, gpus=True), digest="x")
    decider = Decider((CPU, GPU), PolicySettings())
    there = states(CPU, GPU)
    first = decider.decide(request(), there, before, NOW_S)
    second = decider.decide(request(), there, after, NOW_S)
    assert (first.chosen, second.chosen) == ("gpu", "cpu")
    assert first.id != second.id


def test_an_unlike_problem_size_widens_until_berth_abstains() -> None:
    decision = run(request(size=8000.0))
    assert {r.code for r in decision.ranked} <= {"interval-too-wide", "time-over-queue", "memory"}
    assert decision.chosen is None


@pytest.mark.parametrize("reverse", [False, True])
def test_jobs_that_differ_in_size_memory_or_limit_alone_are_decided_as_if_first(
    *, reverse: bool
) -> None:
    """What is remembered of one of them says nothing of the others."""
    asked = [
        replace(
            request(size=size, time_limit_s=limit),
            resources=replace(request().resources, memory_bytes_per_node=memory),
        )
        for size in (None, 1000.0, 1300.0, 8000.0)
        for memory in (None, GIB, 120 * GIB, 600 * GIB)
        for limit in (None, 1.0, H, 90 * H)
    ]
    decider = Decider((CPU, GPU), PolicySettings())
    there = states(CPU, GPU)
    in_order = asked[::-1] if reverse else asked
    decisions = [decider.decide(one, there, PREDICTED, NOW_S) for one in in_order]
    assert decisions == [run(one) for one in in_order]
    assert len({(one.code, one.edit) for one in decisions}) > 4


def test_memory_that_no_node_has_is_named_before_what_a_prediction_lacks() -> None:
    prior = forecast(curve("cpu", 800.0, basis=Basis.PRIOR))
    too_much = replace(
        request(), resources=replace(request().resources, memory_bytes_per_node=600 * GIB)
    )
    assert why_not(run(request(), (CPU,), prior), "cpu")[0] == Code.PRIOR_ONLY
    assert why_not(run(too_much, (CPU,), prior), "cpu")[0] == Code.TOO_FEW_RESOURCES


def test_a_sentence_does_not_contradict_its_table() -> None:
    """The row with the shortest time is named where it is not the one that was chosen."""
    predicted = forecast(
        curve("cpu", 800.0), curve("gpu", 20.0, gpus=True, abstained="counters are missing")
    )
    decision = run(predicted=predicted, settings=PolicySettings(strict=False))
    assert decision.chosen == "cpu"
    assert "gpu with 20 s is only a guess" in decision.reason
    decision = decided(now=states(CPU) | {"gpu": state(up=False)})
    assert "gpu with 20 s is ruled out (" in decision.reason
    on_cpus = replace(predicted, targets=("cpu",))
    decision = run(predicted=on_cpus, settings=PolicySettings(strict=False))
    assert decision.chosen == "cpu"
    assert "20 s" not in decision.reason  # where the program cannot run, no time is to be named


TWO = MemoryUse(host_bytes=interval(60.0 * GIB, 1.2), gpu_bytes=interval(3.0 * GIB, 1.2))


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ({}, None),
        ({"gpu_memory_bytes": 5 * GIB, "memory_bytes_per_node": 72 * GIB}, None),
        ({"gpu_memory_bytes": 5 * GIB, "memory_bytes_per_node": None}, None),
        (
            {"gpu_memory_bytes": 3 * GIB},
            "it may need 3.6 GiB of GPU memory; there is 3.0 GiB",
        ),
        (
            {"memory_bytes_per_node": 64 * GIB},
            "it may need 72.0 GiB of host memory; there is 64.0 GiB",
        ),
    ],
)
def test_beside_gpus_both_memories_must_fit_and_the_sentence_says_which_one_does_not(
    place: dict[str, Any], why: str | None
) -> None:
    program = forecast(curve("gpu", 20.0, gpus=True, memory=TWO))
    decision = run(predicted=program, candidates=(gpu(**place),))
    assert decision.ranked[0].excluded == why


def test_host_memory_that_is_not_known_rules_no_gpu_out_and_lowers_no_request() -> None:
    place = gpu()
    program = forecast(curve("gpu", 20.0, gpus=True, memory=MemoryUse(gpu_bytes=TWO.gpu_bytes)))
    decision = run(request(memory_bytes_per_node=100 * GIB), predicted=program, candidates=(place,))
    assert decision.chosen == "gpu"
    held = decision.edit.resources
    assert held is None or held.memory_bytes_per_node == 100 * GIB


def test_more_gpus_than_it_was_measured_on_do_not_share_its_memory() -> None:
    whole = curve("gpu", 20.0, gpus=True, needs_bytes=30.0 * GIB)
    one, four = PredictionCurve(whole.points[:1]), PredictionCurve((whole.points[2],))
    place = gpu(gpu_memory_bytes=20 * GIB, translation=Translation(gpus=4))
    for measured_on, chosen in ((one, None), (four, "gpu")):
        decision = run(predicted=forecast(measured_on), candidates=(place,))
        assert decision.chosen == chosen
