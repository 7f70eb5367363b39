"""Jobs of which nothing usable is predicted get the list of queues where they fit as written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import (
    GIB,
    GPU,
    FixedRights,
    H,
    cpu,
    curve,
    decided,
    forecast,
    gpu,
    ranked_as,
    request,
    state,
    states,
)

from berth.policies.codes import Ground
from berth.policies.limits import Limit, Scope
from berth.policies.settings import FitSettings, PolicySettings
from berth.policies.values import Candidate, Decision, DefaultMemory, Demands, QueueBounds, Request
from berth.predictor.core.prediction import Basis

FIT = PolicySettings(list_queues=True, fit=FitSettings())
NEW = cpu("new", cores_per_node=64, memory_bytes_per_node=192 * GIB, features=("avx512",))
OLD = cpu("old", speed_rank=1, features=("avx2",))
BIG = cpu("big", memory_bytes_per_node=1500 * GIB, nodes=1, speed_rank=2)
SLICE = gpu("mig", gres="gpu:1g.5gb", slice_of="a100", slice_part=1 / 7)
PLACES = (OLD, NEW, BIG, GPU, SLICE)


def unknown(**changes: Any) -> Request:
    """A job in the auto queue of whose program nothing is known."""
    return request(**{"queue": "auto", "wants_placement": True, "workload": None, **changes})


def fitted(asked: Request, *places: Candidate, **changes: Any) -> Decision:
    """The decision without a forecast."""
    return decided(asked, places or PLACES, None, **{"settings": FIT, **changes})


def queues(asked: Request, *places: Candidate, **changes: Any) -> str | None:
    """The list of queues that the job gets."""
    edit = fitted(asked, *places, **changes).edit
    return None if edit is None else edit.queue


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "new,old,big"),
        ({"memory_bytes_per_node": 150 * GIB}, "new,big"),
        ({"memory_bytes_per_node": 1000 * GIB}, "big"),
        ({"tasks": 1, "cpus_per_task": 64}, "new"),
        ({"nodes": 2}, "new,old"),
        ({"features": "avx512"}, "new"),
        ({"features": "avx512|avx2"}, "new,old"),
        ({"needs": Demands(prefer="avx2")}, "old"),
        ({"gres": "gpu:1", "gpus": 1}, "gpu"),
        ({"gres": "gpu:h100:1", "gpus": 1}, "gpu"),
        ({"gres": "gpu:1g.5gb:1", "gpus": 1}, "mig"),
        ({"gpus": 2}, "gpu"),
        ({"time_limit_s": 100 * H}, None),
        ({"gres": "gpu:a100:1", "gpus": 1}, None),
        ({"features": "avx512&big"}, None),
    ],
)
def test_a_job_gets_the_queues_that_take_it_as_written(
    changes: dict[str, Any], expected: str | None
) -> None:
    decision = fitted(unknown(**changes))
    if expected is None:
        assert (decision.code, decision.edit) == ("no-workload", None)
        return
    assert decision.edit is not None
    assert decision.edit == type(decision.edit)(queue=expected)
    assert decision.code == ("fits" if "," in expected else "fits-one")


def test_only_jobs_that_let_berth_choose_and_only_where_the_site_wants_it() -> None:
    assert queues(unknown(wants_placement=False)) is None
    assert queues(unknown(), settings=PolicySettings(list_queues=True)) is None
    unnamed = unknown(queue=None, wants_placement=False)
    assert queues(unnamed) is None
    everybody = FIT.model_copy(update={"fit": FitSettings(unnamed_partition=True)})
    assert queues(unnamed, settings=everybody) == "new,old,big"


@pytest.mark.parametrize("changes", [{"opted_out": True}, {"pinned": ("nodelist",)},
                                     {"pinned": ("reservation",)}, {"component": 1}])  # fmt: skip
def test_jobs_that_are_left_alone_are_left_alone(changes: dict[str, Any]) -> None:
    assert queues(unknown(**changes)) is None


def test_the_list_is_by_speed_whatever_is_full() -> None:
    full = states(*PLACES) | {"new": state(idle_cores=0, pending_jobs=3)}
    assert queues(unknown(), now=full) == "new,old,big"


def test_a_queue_with_two_kinds_is_as_fast_as_its_slower_kind_and_gets_no_constraint() -> None:
    mixed = (
        cpu("mixed-new", queue="mixed", constraint="avx512", speed_rank=0),
        cpu("mixed-old", queue="mixed", constraint="avx2", speed_rank=2),
        cpu("only", speed_rank=1),
    )
    decision = fitted(unknown(features="avx512|avx2"), *mixed)
    assert decision.edit is None or decision.edit.queue == "mixed"
    decision = fitted(unknown(), *mixed)
    assert decision.edit is not None
    assert (decision.edit.queue, decision.edit.constraint) == ("only,mixed", None)


@pytest.mark.parametrize(
    ("types", "gpus", "expected"),
    [
        (("gpu:1g.5gb",), 1, "mig"),
        (("gpu:1g.5gb", "gpu:3g.20gb"), 1, None),
        (("gpu:1g.5gb", "gpu:off1"), 1, None),
        ((), 1, None),
        (("gpu:1g.5gb",), 2, None),
    ],
)
def test_a_job_for_any_gpu_gets_a_slice_only_where_all_gpus_are_such_slices(
    types: tuple[str, ...], gpus: int, expected: str | None
) -> None:
    here = states(SLICE, gpu_types=types)
    asked = unknown(gres=f"gpu:{gpus}", gpus=gpus)
    assert queues(asked, SLICE, now=here) == expected
    with_gpu = here | states(GPU)
    assert queues(asked, SLICE, GPU, now=with_gpu) == "gpu"


def test_cores_of_gpu_nodes_are_the_last_resort() -> None:
    assert queues(unknown(), GPU, SLICE) == "gpu,mig"
    reason = fitted(unknown(), GPU).reason
    assert "it has GPUs, which the job does not use" in reason
    assert queues(unknown(gres="gpu:0"), GPU) == "gpu"


def test_a_scheduler_without_lists_gets_the_first_queue_and_is_told_there_are_more() -> None:
    decision = fitted(unknown(), settings=FIT.model_copy(update={"list_queues": False}))
    assert decision.edit is not None
    assert (decision.edit.queue, decision.code) == ("new", "fits")


def test_limits_of_queues_accounts_and_users_are_heeded() -> None:
    here = states(*PLACES)
    assert queues(unknown(allowed_queues=frozenset(("old", "big")))) == "old,big"
    here["new"] = replace(here["new"], bounds=QueueBounds(max_cores_per_node=4))
    here["big"] = replace(here["big"], up=False)
    assert queues(unknown(), now=here) == "old"
    limits = FixedRights((Limit(Scope.JOB, 4, "account physics", "cpu"),))
    assert queues(unknown(), now=states(*PLACES, rights=limits)) is None


def test_threads_count_as_cpus_where_the_scheduler_counts_them() -> None:
    here = states(*PLACES, bounds=QueueBounds(cpus_per_core=2))
    assert queues(unknown(tasks=1, cpus_per_task=128), now=here) == "new"


def test_a_stale_state_is_not_trusted() -> None:
    assert queues(unknown(), now=states(*PLACES, as_of_s=0.0)) is None


def test_a_forecast_without_a_usable_time_still_says_where_the_program_cannot_run() -> None:
    wide = forecast(curve("old", 800.0, factor=100.0), curve("new", 800.0, factor=100.0))
    decision = decided(unknown(workload="lu"), PLACES, wide, settings=FIT)
    assert decision.edit is not None
    assert (decision.edit.queue, decision.code) == ("new,old,big", "fits")
    assert "too uncertain" in (ranked_as(decision, "new").warning or "")
    assert ranked_as(decision, "new").excluded is None
    arm = decided(unknown(workload="lu"), PLACES, replace(wide, architecture="aarch64"),
                  settings=FIT)  # fmt: skip
    assert arm.edit is None
    greedy = forecast(
        curve("old", 800.0, factor=100.0, needs_bytes=160.0 * GIB),
        curve("new", 800.0, factor=100.0, needs_bytes=160.0 * GIB),
    )
    decision = decided(unknown(workload="lu"), PLACES, greedy, settings=FIT)
    assert decision.edit is not None
    assert decision.edit.queue == "new,big"


def test_a_place_that_the_site_keeps_for_predictions_is_not_on_the_list() -> None:
    assert queues(unknown(), replace(NEW, by_fit=False), OLD) == "old"


def test_nodes_that_do_not_work_at_present_are_the_last_resort() -> None:
    here = states(*PLACES) | {"new": state(usable_nodes=0)}
    assert queues(unknown(), now=here) == "old,big"
    assert queues(unknown(tasks=1, cpus_per_task=64), now=here) == "new"
    assert queues(unknown(), now=states(*PLACES) | {"new": state(up=False)}) == "old,big"


def test_the_nodes_as_the_scheduler_reports_them_must_have_the_room() -> None:
    here = states(*PLACES, node_sizes=((64, 256 * GIB, 4),))
    here["old"] = replace(here["old"], node_sizes=((32, 60 * GIB, 2), (4, 128 * GIB, 9)))
    assert queues(unknown(memory_bytes_per_node=100 * GIB), now=here) == "new,big"
    assert queues(unknown(memory_bytes_per_node=50 * GIB), now=here) == "new,old,big"
    assert queues(unknown(needs=Demands(exclusive=True)), now=here) == "new,old,big"


def test_where_one_refusal_refuses_the_list_only_queues_with_known_nodes_are_on_it() -> None:
    here = states(*PLACES, refuses_lists=True)
    assert queues(unknown(), now=here) == "new,old,big"  # nothing is known of any
    here["old"] = replace(here["old"], node_sizes=((32, 128 * GIB, 4),))
    assert queues(unknown(), now=here) == "old"


@pytest.mark.parametrize(("old_rank", "expected"), [
    (1, "new,old,big"), (-1, "old,new,big"),  # what is not predicted keeps the site's order
])  # fmt: skip
def test_a_predicted_place_does_not_remove_places_of_which_nothing_is_predicted(
    old_rank: int, expected: str
) -> None:
    places = (replace(OLD, speed_rank=old_rank), NEW, BIG, GPU)
    known = forecast(curve("old", 800.0))
    decision = decided(unknown(workload="lu"), places, known, settings=FIT)
    assert decision.edit is not None
    assert (decision.chosen, decision.edit.queue, decision.code) == ("old", expected, "placed")
    assert ranked_as(decision, "new").excluded is None
    assert "it may also start in new, big" in decision.reason
    alone = decided(unknown(workload="lu"), places, known, settings=PolicySettings())
    assert alone.edit is not None
    assert alone.edit.queue == "old"


def test_a_place_that_needs_more_changes_than_the_queue_keeps_its_list_to_itself() -> None:
    known = forecast(curve("gpu", 20.0, gpus=True))
    decision = decided(unknown(workload="lu"), PLACES, known, settings=FIT)
    assert decision.edit is not None
    assert decision.edit.queue == "gpu"


def test_a_default_memory_that_is_written_into_the_job_must_fit_in_every_place() -> None:
    own = DefaultMemory(bytes_per_node=150 * GIB)
    known = forecast(curve("new", 800.0))
    here = states(*PLACES, default_memory=own)
    decision = decided(unknown(workload="lu", default_memory=own), PLACES, known, now=here,
                       settings=FIT)  # fmt: skip
    assert decision.edit is not None
    assert decision.edit.queue == "new,big"
    assert decision.edit.resources is not None
    assert decision.edit.resources.memory_bytes_per_node == 150 * GIB


def test_equal_inputs_give_equal_lists_and_digests() -> None:
    first, second = (fitted(unknown(), *places) for places in (PLACES, PLACES[::-1]))
    assert (first.edit, first.inputs_digest) == (second.edit, second.inputs_digest)


def test_a_decision_says_what_it_is_based_on() -> None:
    assert fitted(unknown()).ground is Ground.FIT
    assert fitted(unknown(opted_out=True)).ground is None
    asked = unknown(workload="lu")
    piloted = forecast(curve("old", 800.0))
    assert decided(asked, PLACES, piloted, settings=FIT).ground is Ground.MEASURED
    for basis, ground in ((Basis.MEASURED, Ground.RUNS), (Basis.LEARNED, Ground.POPULATION)):
        past = forecast(curve("old", 800.0, basis=basis), kind="history")
        assert decided(asked, PLACES, past, settings=FIT).ground is ground
    graph = forecast(curve("old", 800.0), kind="graph")
    assert decided(asked, PLACES, graph, settings=FIT).ground is Ground.DESCRIBED
