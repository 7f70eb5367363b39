"""What must hold of every decision, whatever the site, the program and the request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from one_decision import decide
from policy_builders import GIB, NOW_S, cpu, curve, forecast, gpu, state

from berth.policies.decide import Decider
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    QueueBounds,
    Request,
    Resources,
    RuledOut,
    Translation,
)
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis

RULED_OUT = RuledOut("c0", "ada", "", "QOSMaxCpuPerJobLimit", "17", NOW_S)
QUEUES = ("q0", "q1", "q2")
seconds = st.floats(1.0, 1e6)


@st.composite
def places(draw: st.DrawFn) -> tuple[tuple[Candidate, ...], Forecast]:
    candidates, curves = [], []
    for i in range(draw(st.integers(0, 5))):
        is_gpu = draw(st.booleans())
        rule = Translation(
            gpus=draw(st.integers(0, 2)),
            cpus_per_gpu=draw(st.none() | st.integers(1, 80)),
            tasks_per_gpu=draw(st.none() | st.integers(1, 64)),
            max_nodes=draw(st.none() | st.integers(1, 4)),
            max_cores=draw(st.none() | st.integers(1, 64)),
            keep_tasks=draw(st.booleans()),
        )
        build = gpu if is_gpu else cpu
        candidates.append(
            build(
                f"c{i}",
                queue=draw(st.sampled_from(QUEUES)),
                translation=rule,
                nodes=draw(st.none() | st.integers(1, 8)),
                max_time_s=draw(st.none() | seconds),
                price_per_core_hour=draw(st.none() | st.floats(0, 10)),
                allowed_users=draw(st.none() | st.just(frozenset({"ada"}))),
                features=draw(st.sampled_from([(), ("rome",), ("rome", "ib")])),
                constraint=draw(st.none() | st.just("rome")),
            )
        )
        basis = draw(st.sampled_from(list(Basis)))
        if draw(st.booleans()) or i == 0:
            memory = draw(st.floats(1.0, 500.0 * GIB))
            curves.append(
                curve(
                    f"c{i}",
                    draw(seconds),
                    gpus=is_gpu,
                    basis=basis,
                    needs_bytes=memory,
                    abstained=draw(st.none() | st.just("unlike any seen")),
                )
            )
    targets = draw(st.sampled_from([("cpu",), ("cuda",), ("cpu", "cuda")]))
    return tuple(candidates), forecast(*curves, targets=targets)


requests = st.builds(
    Request,
    user=st.sampled_from(["ada", "bob"]),
    account=st.none(),
    resources=st.builds(
        Resources,
        nodes=st.integers(0, 3),
        tasks=st.integers(0, 80),
        cpus_per_task=st.integers(0, 40),
        gpus=st.integers(0, 6),
        memory_bytes_per_node=st.none() | st.integers(1, 600 * GIB),
    ),
    queue=st.none() | st.sampled_from((*QUEUES, "auto")),
    wants_placement=st.booleans(),
    pinned=st.lists(
        st.sampled_from(["nodes", "gres", "constraint", "qos", "licenses"]), unique=True
    ).map(tuple),
    features=st.none() | st.sampled_from(["rome", "rome&ib", "a|b"]),
    gres=st.none() | st.sampled_from(["gpu:1", "gpu:h100:2", "gpu:a100:1"]),
    time_limit_s=st.none() | seconds,
    size=st.none() | st.floats(1.0, 1e4),
    allowed_queues=st.none() | st.frozensets(st.sampled_from(QUEUES)),
)
settings_ = st.builds(
    PolicySettings,
    objective=st.sampled_from(OBJECTIVES.own()),
    strict=st.booleans(),
    allow_prior=st.booleans(),
    may_raise_time_limit=st.booleans(),
)
some_states = st.dictionaries(
    st.sampled_from([f"c{i}" for i in range(6)]),
    st.builds(
        state,
        up=st.booleans(),
        usable_nodes=st.none() | st.integers(0, 8),
        as_of_s=st.sampled_from([NOW_S, NOW_S - 1e4]),
    ),
)


@dataclass(frozen=True)
class Situation:
    """What a decision is made from."""

    candidates: tuple[Candidate, ...]
    predicted: Forecast
    asked: Request
    settings: PolicySettings
    states: dict[str, CandidateState]

    def decision(self) -> Decision:
        return decide(
            self.asked, self.candidates, self.states, self.predicted, self.settings, now_s=NOW_S
        )


@st.composite
def situations(
    draw: st.DrawFn, policies: st.SearchStrategy[PolicySettings] = settings_
) -> Situation:
    candidates, predicted = draw(places())
    return Situation(candidates, predicted, draw(requests), draw(policies), draw(some_states))


@given(situations())
def test_what_is_chosen_passed_and_keeps_rights_and_choices(
    case: Situation,
) -> None:
    asked, candidates, settings = case.asked, case.candidates, case.settings
    decision = case.decision()
    assert sorted(r.candidate for r in decision.ranked) == sorted(c.name for c in candidates)
    for row in decision.ranked:
        assert (row.score is None) == (row.excluded is not None) == (row.code is not None)
    if decision.chosen is None:
        assert decision.edit is None
        assert decision.code != "placed"
        return
    best, edit = decision.ranked[0], decision.edit
    place = next(c for c in candidates if c.name == decision.chosen)
    assert best.candidate == decision.chosen
    assert edit is not None
    assert best.excluded is None
    assert best.runtime_s is not None
    for row in decision.ranked:
        assert row.score is None or (row.guess, row.score) >= (best.guess, best.score)
    # Rights
    assert asked.allowed_queues is None or place.queue in asked.allowed_queues
    assert place.allowed_users is None or asked.user in place.allowed_users
    # The user's own choices
    if asked.queue is not None and not asked.wants_placement:
        assert edit.queue is None
        assert place.queue == asked.queue
    if asked.features is not None or "constraint" in asked.pinned:
        assert edit.constraint is None
    if asked.resources.gpus > 0:
        assert best.resources.gpus == asked.resources.gpus
    # Where it can run, and to the end
    assert set(place.targets) & set(case.predicted.targets)
    upper = best.runtime_s.high
    assert place.max_time_s is None or upper <= place.max_time_s
    limit = edit.time_limit_s or asked.time_limit_s
    assert limit is None or upper <= limit
    if edit.time_limit_s is not None:
        assert settings.may_raise_time_limit
        assert place.max_time_s is None or edit.time_limit_s <= place.max_time_s
    # What it holds exists
    held = best.resources
    assert place.nodes is None or held.nodes <= place.nodes
    assert held.gpus <= held.nodes * place.gpus_per_node
    assert held.cpus_per_task <= place.cores_per_node
    if settings.strict:
        assert best.basis is not Basis.PRIOR or settings.allow_prior
        assert place.name in case.states
        assert not best.guess


@given(situations(), st.randoms())
def test_the_same_input_gives_the_same_decision_in_any_order(
    case: Situation,
    random: Random,
) -> None:
    mixed = random.sample(case.candidates, len(case.candidates))
    turned = dict(reversed(list(case.states.items())))
    other = replace(case, candidates=tuple(mixed), states=turned)
    assert other.decision() == case.decision()


@given(situations(), st.lists(requests, min_size=1, max_size=5))
def test_what_was_decided_before_does_not_matter(case: Situation, others: list[Request]) -> None:
    decider = Decider(case.candidates, case.settings)
    several = [case.asked, *others]
    for asked in [*several, *reversed(several)]:
        fresh = replace(case, asked=asked).decision()
        assert decider.decide(asked, case.states, case.predicted, NOW_S) == fresh


changes = st.dictionaries(
    st.sampled_from([f"c{i}" for i in range(5)]),
    st.sampled_from(
        [{"idle_cores": 0}, {"pending_jobs": 3}, {"usable_nodes": 1}, {"usable_nodes": 8},
         {"up": False}, {"as_of_s": NOW_S - 1e4}, {"bounds": QueueBounds(max_nodes=1)},
         {"gpu_types": ("gpu:h100",)}, {"ruled_out": (RULED_OUT,)}]
    ),
)  # fmt: skip


@given(
    places(),
    st.lists(requests, min_size=1, max_size=3),
    settings_,
    st.sampled_from([Weights(), Weights(wait=0.0)]),
    st.booleans(),
    st.lists(changes, min_size=2, max_size=4),
)
def test_readings_one_after_another_decide_as_each_would_alone(
    there: tuple[tuple[Candidate, ...], Forecast],
    several: list[Request],
    settings: PolicySettings,
    weights: Weights,
    lists: bool,
    readings: list[dict[str, dict[str, object]]],
) -> None:
    candidates, predicted = there
    settings = settings.model_copy(update={"weights": weights, "list_queues": lists})
    decider = Decider(candidates, settings)
    for number, changed in enumerate([{}, *readings, {}, {}]):
        now_s = NOW_S + 100.0 * number
        present = {
            one.name: state(**{"as_of_s": now_s, **changed.get(one.name, {})}) for one in candidates
        }
        for asked in several:
            fresh = decide(asked, candidates, present, predicted, settings, now_s=now_s)
            assert decider.decide(asked, present, predicted, now_s) == fresh
            aged = decide(asked, candidates, present, predicted, settings, now_s=now_s + 150.0)
            assert decider.decide(asked, present, predicted, now_s + 150.0) == aged


@given(situations(st.just(PolicySettings(objective="cheapest"))), st.floats(1.0, 100.0))
def test_a_dearer_candidate_never_comes_out_better(case: Situation, factor: float) -> None:
    before = case.decision()
    for name in (c.name for c in case.candidates):
        dearer = tuple(
            c
            if c.name != name or c.price_per_core_hour is None
            else replace(c, price_per_core_hour=c.price_per_core_hour * factor)
            for c in case.candidates
        )
        if replace(case, candidates=dearer).decision().chosen == name:
            assert before.chosen == name


@given(situations(st.just(PolicySettings())), st.floats(1.0, 100.0))
def test_a_longer_partition_limit_never_rules_a_candidate_out(
    case: Situation, factor: float
) -> None:
    longer = tuple(
        c if c.max_time_s is None else replace(c, max_time_s=c.max_time_s * factor)
        for c in case.candidates
    )
    before, after = (
        {r.candidate for r in each.decision().ranked if r.score is not None}
        for each in (case, replace(case, candidates=longer))
    )
    assert before <= after


@given(situations())
def test_the_digest_tells_requests_apart(
    case: Situation,
) -> None:
    asked, decider = case.asked, Decider(case.candidates, case.settings)

    def digest(changed: Request) -> str:
        return decider.decide(changed, case.states, case.predicted, NOW_S).inputs_digest

    assert digest(asked) == digest(replace(asked))
    assert digest(asked) != digest(replace(asked, user="eve"))
    assert digest(asked) != digest(replace(asked, time_limit_s=77.0))
