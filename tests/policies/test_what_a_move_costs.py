"""The gate: what a moved job gets is never less than what it had where it was submitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import (
    CPU,
    GIB,
    GPU,
    H,
    cpu,
    curve,
    decided,
    forecast,
    ranked_as,
    request,
    state,
    states,
)

from berth.policies.gate import loss_of, move_of
from berth.policies.settings import FitSettings, GateSettings, PolicySettings
from berth.policies.values import DefaultMemory, Demands, OwnQueue, QueueBounds, Request, Resources

STRICT = GateSettings()


def submitted(bounds: QueueBounds | None = None, **changes: Any) -> Request:
    """A job of eight tasks in the queue ``auto``; ``own`` has what the queue gives besides."""
    own = OwnQueue(
        bounds=bounds or QueueBounds(),
        **{"limit_s": H, "cores_per_node": 32, **changes.pop("own", {})},
    )
    return request(**{"queue": "auto", "wants_placement": True, "own": own, **changes})


def loss(
    job: Request, rules: QueueBounds, gate: GateSettings = STRICT, **changes: Any
) -> str | None:
    """The code of what the job would lose in a queue with these rules; None: nothing."""
    held = Resources(1, 8, job.resources.cpus_per_task, changes.pop("gpus", 0))
    place = changes.pop("place", CPU)
    move = move_of(job, place, held, state(bounds=rules, **changes), 1.0)
    assert move is not None
    found = loss_of(move, gate)
    return None if found is None else found.code.value


SAFE = QueueBounds(preemptible="jobs of owners may interrupt its jobs")
WEIGHTS = QueueBounds(billing_weights=(("cpu", 10.0), ("gres/gpu", 100.0)))


@pytest.mark.parametrize(
    ("own", "there", "code", "key"),
    [
        ({}, {"preemptible": "owners"}, "preemptible", "preemptible"),
        ({"preemptible": "owners"}, {"preemptible": "owners"}, None, None),
        ({"preemptible": "a", "priority_tier": 2}, {"preemptible": "a"}, "preemptible", None),
        ({}, {"priority_tier": 0}, "lower-priority", "lower-priority"),
        ({}, {"priority_tier": 9}, None, None),
        ({}, {"jobs_per_core": 2}, "shared-cores", "shared-cores"),
        ({}, {"jobs_per_core": 1}, None, None),
        ({"jobs_per_core": 4}, {"jobs_per_core": 2}, None, None),
        ({}, {"exclusive": True}, "whole-nodes", None),
        ({"exclusive": True}, {}, "part-of-node", None),
        ({"exclusive": True}, {"exclusive": True}, None, None),
        ({}, {"cpus_per_core": 2}, "hardware-threads", "hardware-threads"),
        ({}, {"billing_weights": (("cpu", 2.0),)}, "bills-more", None),
        ({}, {"billing_weights": (("cpu", 1.0), ("mem", 0.0))}, None, None),
        ({"billing_weights": (("cpu", 2.0),)}, {}, None, None),
        ({}, {"billing_weights": (("cpu", float("inf")),)}, "bills-more", None),
    ],
)
def test_each_rule_of_a_queue_is_compared_with_the_jobs_own(
    own: dict[str, Any], there: dict[str, Any], code: str | None, key: str | None
) -> None:
    job = submitted(QueueBounds(**own))
    assert loss(job, QueueBounds(**there)) == code
    if key is not None:
        assert (
            loss(job, QueueBounds(**there), GateSettings.model_validate({"allow": [key]})) is None
        )


def test_whole_nodes_are_for_jobs_that_ask_for_them_and_are_billed_as_such() -> None:
    whole = QueueBounds(exclusive=True)
    asks = submitted(needs=Demands(exclusive=True), own={"cores_per_node": 32})
    assert loss(asks, whole) is None
    assert (
        loss(replace(asks, own=OwnQueue(bounds=QueueBounds(), limit_s=H, cores_per_node=8)), whole)
        == "bills-more"
    )
    forced = QueueBounds(jobs_per_core=1)
    assert loss(asks, forced) == "shared-cores"  # Slurm ignores --exclusive there
    allowed = GateSettings(allow=("whole-nodes",), bill_factor=4.0)
    assert loss(submitted(), whole, allowed) is None
    assert loss(submitted(), whole, allowed.model_copy(update={"bill_factor": 3.9})) == "bills-more"


def test_a_job_that_must_not_start_again_is_never_where_others_interrupt_it() -> None:
    allowed = GateSettings(allow=("preemptible",))
    assert loss(submitted(), SAFE, allowed) is None
    job = submitted(needs=Demands(never_requeue=True))
    assert loss(job, SAFE, allowed) == "preemptible"


@pytest.mark.parametrize(
    ("own_s", "asked_s", "longest_s", "code"),
    [
        (H, None, 60.0, "less-time"),
        (H, None, H, None),
        (None, None, 48 * H, "less-time"),  # no limit where it was submitted
        (H, 30 * 60.0, 30 * 60.0, None),
        (24 * H, None, None, None),
    ],
)
def test_never_less_time(
    own_s: float | None, asked_s: float | None, longest_s: float | None, code: str | None
) -> None:
    job = submitted(own={"limit_s": own_s}, time_limit_s=asked_s)
    place = cpu(max_time_s=longest_s)
    assert loss(job, QueueBounds(), place=place) == code
    assert loss(job, QueueBounds(max_time_s=longest_s), place=cpu(max_time_s=None)) == code
    assert loss(job, QueueBounds(), GateSettings(allow=("less-time",)), place=place) is None


@pytest.mark.parametrize(("per_core", "code"), [(2000, None), (4000, None), (1000, "less-memory")])
def test_never_less_memory_by_default(per_core: int, code: str | None) -> None:
    own = {"default_memory": DefaultMemory(bytes_per_core=2000 * 2**20)}
    there = DefaultMemory(bytes_per_core=per_core * 2**20)
    assert loss(submitted(own=own), QueueBounds(), default_memory=there) == code
    asks = submitted(own=own, memory_bytes_per_node=GIB)
    assert loss(asks, QueueBounds(), default_memory=there) is None


def test_cores_that_come_with_a_gpu_come_there_too() -> None:
    six = QueueBounds(default_cores_per_gpu=6)
    job = submitted(six, gpus=1)
    assert loss(job, QueueBounds(), gpus=1) == "queue-limit"
    assert loss(job, six, gpus=1) is None
    assert loss(submitted(six, gpus=1, cpus_per_task=2), QueueBounds(), gpus=1) is None


def test_a_bill_is_that_of_the_whole_job() -> None:
    """16.25 times as dear an hour is no loss where the job is 20 times as fast."""
    held = Resources(1, 1, 1, 1)
    job = submitted(tasks=8)
    for ratio, code in ((1.0, "bills-more"), (0.2, "bills-more"), (0.05, None)):
        move = move_of(job, GPU, held, state(bounds=WEIGHTS), ratio)
        assert move is not None
        found = loss_of(move, STRICT)
        assert (None if found is None else found.code.value) == code
        assert move.bill_ratio == pytest.approx(110.0 / 8 * ratio)


def test_gpus_are_added_only_where_the_site_adds_them() -> None:
    job, held = submitted(), Resources(1, 1, 8, 1)
    move = move_of(job, GPU, held, state(), 1.0)
    assert move is not None
    assert loss_of(move, STRICT) is None
    assert loss_of(move, GateSettings(added_gpus=False)) is not None


def test_nothing_is_compared_in_the_jobs_own_queue_or_where_that_is_not_known() -> None:
    held = Resources(1, 8)
    assert move_of(request(), CPU, held, state(bounds=SAFE)) is None
    assert move_of(submitted(queue="cpu"), CPU, held, state(bounds=SAFE)) is None


PREDICTED = forecast(curve("cpu", 80.0), curve("gpu", 2.0, gpus=True), curve("old", 160.0))
OLD = cpu("old", speed_rank=1)


@pytest.mark.parametrize("known", [True, False])
def test_every_way_to_a_decision_passes_the_gate(known: bool) -> None:
    """As the best place, on a list beside it, and on a list by fit."""
    places = (CPU, cpu("alike", platform="cpu"), OLD)
    now = states(*places)
    settings = PolicySettings(list_queues=True, fit=FitSettings())
    job = submitted(workload="lu" if known else None)
    predicted = PREDICTED if known else None
    free = decided(job, places, predicted, now=now, settings=settings)
    assert free.edit is not None
    assert free.edit.queue is not None
    assert set(free.edit.queue.split(",")) >= {"alike", "cpu"}
    for closed in ("alike", "cpu"):
        guarded = now | {closed: state(bounds=SAFE)}
        decision = decided(job, places, predicted, now=guarded, settings=settings)
        assert decision.edit is not None
        assert closed not in (decision.edit.queue or "").split(",")
        assert ranked_as(decision, closed).code == "preemptible"


def staying(*names: str, **changes: Any) -> Request:
    """A job whose own queue has the nodes of these candidates."""
    return submitted(own={"places": names, **changes.pop("own", {})}, **changes)


def test_a_job_moves_only_where_it_does_better_than_as_written() -> None:
    places = (CPU, OLD, GPU)
    for names, chosen, code in (
        (("old",), "gpu", "placed"),
        (("cpu", "old"), "gpu", "placed"),
        (("cpu",), "gpu", "placed"),
    ):
        decision = decided(staying(*names), places, PREDICTED)
        assert (decision.chosen, decision.code) == (chosen, code)
    no_gpu = forecast(curve("cpu", 80.0), curve("old", 160.0), targets=("cpu",))
    stays = decided(staying("cpu"), places, no_gpu)
    assert (stays.chosen, stays.code, stays.edit) == (None, "stays", None)
    assert stays.reason == "Left where you sent it: 10 s is predicted there, and cpu is no better."
    assert ranked_as(stays, "old").code == "no-better"
    moves = decided(staying("cpu", "old"), places, no_gpu)
    assert moves.chosen == "cpu"
    assert "2.0 times faster than where you sent it" in moves.reason
    within_a_second = forecast(curve("cpu", 4.0), curve("old", 8.0), targets=("cpu",))
    assert decided(staying("cpu", "old"), places, within_a_second).chosen == "cpu"


def test_a_place_ruled_out_by_a_feature_or_by_memory_does_not_make_a_slower_one_best() -> None:
    """The nodes of the job's own queue take it, although no candidate of them does."""
    kinds = (
        cpu("intel", constraint="intel", features=("scratch",)),
        cpu("amd", constraint="amd", features=("scratch",)),
    )
    slow = replace(GPU, features=("scratch",))
    known = forecast(
        curve("intel", 80.0), curve("amd", 96.0), curve("gpu", 800.0, gpus=True)
    )  # fmt: skip
    job = staying("intel", "amd", features="scratch")
    decision = decided(job, (*kinds, slow), known)
    assert (decision.code, decision.chosen) == ("stays", None)
    assert "12 s is predicted there" in decision.reason
    elsewhere = staying("intel", "amd", features="rhel8")
    assert decided(elsewhere, (*kinds, replace(slow, features=("rhel8",))), known).chosen == "gpu"


def test_a_job_that_can_run_nowhere_as_written_is_told_so() -> None:
    cuda = forecast(curve("gpu", 20.0, gpus=True), targets=("cuda",))
    decision = decided(staying("cpu", gpus=0), (CPU, GPU), cuda)
    assert decision.chosen == "gpu"
    assert "it cannot run where you sent it" in decision.reason


def test_a_last_resort_is_for_jobs_that_cannot_start_where_they_are() -> None:
    """A job that its own queue takes is not sent to GPU nodes; one that it does not take is."""
    settings = PolicySettings(list_queues=True, fit=FitSettings())
    host = replace(GPU, memory_bytes_per_node=512 * GIB)
    now = states(CPU, GPU) | {"cpu": state(bounds=SAFE)}
    job = staying("cpu", workload=None)
    assert decided(job, (CPU, host), None, now=now, settings=settings).edit is None
    large = staying("cpu", workload=None, memory_bytes_per_node=400 * GIB)
    moved = decided(large, (CPU, host), None, now=now, settings=settings).edit
    assert moved is not None
    assert moved.queue == "gpu"


def test_an_unknown_job_stays_where_the_scheduler_takes_no_lists() -> None:
    settings = PolicySettings(fit=FitSettings())
    assert decided(staying("old", workload=None), (CPU, OLD), None, settings=settings).edit is None
    nowhere = submitted(workload=None, own={"places": ()})
    assert decided(nowhere, (CPU, OLD), None, settings=settings).edit is not None


def test_the_bill_of_a_job_that_cannot_start_where_it_is_is_not_compared() -> None:
    now = states(CPU, GPU) | {"gpu": state(bounds=WEIGHTS)}
    job = staying("cpu", gres="gpu:1", gpus=1)
    assert decided(job, (CPU, GPU), PREDICTED, now=now).chosen == "gpu"


def test_the_nodes_that_are_free_first_say_how_the_job_runs_as_written() -> None:
    """All fast nodes are taken: as written the job starts on the slow ones at once."""
    no_gpu = forecast(curve("cpu", 80.0), curve("old", 160.0), targets=("cpu",))
    now = states(CPU, OLD) | {"cpu": state(idle_cores=0, pending_jobs=5)}
    job = staying("cpu", "old", own={"pending_jobs": 0})
    decision = decided(job, (CPU, OLD), no_gpu, now=now)
    assert decision.code == "stays"


def test_what_is_billed_more_is_said() -> None:
    now = states(CPU, GPU) | {"gpu": state(bounds=WEIGHTS)}
    gate = GateSettings(bill_factor=100.0)
    decision = decided(staying("cpu"), (CPU, GPU), PREDICTED, now=now, gate=gate)
    assert decision.chosen == "gpu"
    assert "It is billed" in decision.reason
    assert decided(staying("cpu"), (CPU, GPU), PREDICTED, now=now).chosen != "gpu"


def test_a_job_without_a_limit_keeps_that_of_its_own_queue() -> None:
    short_by_default = cpu("new", default_time_s=600.0)
    job = submitted(own={"limit_s": H})
    known = forecast(curve("new", 80.0))
    edit = decided(job, (short_by_default,), known).edit
    assert edit is not None
    assert edit.time_limit_s == H
    longer = cpu("new", default_time_s=2 * H)
    edit = decided(job, (longer,), known).edit
    assert edit is not None
    assert edit.time_limit_s is None
    endless = cpu("new", default_time_s=None, max_time_s=None)
    edit = decided(job, (endless,), known).edit
    assert edit is not None
    assert edit.time_limit_s is None
