"""Limits of queues and accounts: what a job would hold, and which sentence rules it out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import (
    BOTH,
    GIB,
    NOW_S,
    FixedRights,
    H,
    cpu,
    curve,
    forecast,
    gpu,
    ranked_as,
    request,
    state,
)  # fmt: skip

from berth.policies.bounds import cores_on_node, holds, memory_on_node, over_bounds
from berth.policies.decide import Decider
from berth.policies.limits import Denied, Limit, Scope
from berth.policies.settings import PolicySettings
from berth.policies.values import (
    UNBOUNDED,
    CandidateState,
    Decision,
    Demands,
    QueueBounds,
    Request,
    Resources,
    RuledOut,
)

MIB = 2**20


@pytest.mark.parametrize(
    ("held", "needs", "bounds", "cores"),
    [
        (Resources(1, 8, 2), Demands(), {}, 16),
        (Resources(3, 8, 2), Demands(), {}, 6),  # the fullest node has three tasks
        (Resources(0, 0, 0), Demands(), {}, 1),
        (Resources(2, 2, 1), Demands(min_cores_per_node=5), {}, 5),
        (Resources(1, 2, 1, 3), Demands(cores_per_gpu=4), {}, 12),
        (Resources(2, 2, 1, 3), Demands(cores_per_gpu=4), {}, 8),  # two GPUs on the fullest
        (Resources(1, 1, 1), Demands(exclusive=True), {}, 32),
        (Resources(1, 1, 1), Demands(), {"exclusive": True}, 32),
    ],
)
def test_cores_of_the_fullest_node(
    held: Resources, needs: Demands, bounds: dict[str, Any], cores: int
) -> None:
    assert cores_on_node(request(needs=needs), held, cpu(), QueueBounds(**bounds)) == cores


@pytest.mark.parametrize(
    ("held", "needs", "bounds", "cores"),
    [
        (Resources(3, 8, 2), Demands(), {}, 16),
        (Resources(3, 8, 2), Demands(min_cores_per_node=7), {}, 21),
        (Resources(2, 2, 1, 4), Demands(cores_per_gpu=3), {}, 12),
        (Resources(2, 2, 1), Demands(exclusive=True), {}, 64),
        (Resources(2, 2, 1), Demands(), {"exclusive": True}, 64),
        (Resources(2, 40, 1), Demands(min_cores_per_node=1), {}, 40),
    ],
)
def test_cores_in_all_are_more_than_the_tasks_only_where_more_is_taken(
    held: Resources, needs: Demands, bounds: dict[str, Any], cores: int
) -> None:
    result = holds(request(needs=needs), held, cpu(), QueueBounds(**bounds))
    assert result["cpu"] == result["billing"] == cores
    assert result["node"] == held.nodes


def test_memory_in_all_is_in_mib_and_weights_of_billing_are_not_known() -> None:
    held = Resources(3, 8, 2, 0, 5 * GIB)
    assert holds(request(), held, cpu(), UNBOUNDED)["mem"] == 3 * 5 * 1024
    assert holds(request(), held, cpu(), QueueBounds(weighted=True))["billing"] == float("inf")


def test_gpus_count_by_their_type_where_the_place_names_one() -> None:
    held = Resources(1, 1, 8, 2)
    typed = holds(request(), held, gpu(), UNBOUNDED)
    assert typed["gres/gpu"] == typed["gres/gpu:h100"] == 2
    plain = holds(request(), held, gpu(gres="gpu"), UNBOUNDED)
    assert plain["gres/gpu"] == 2
    assert not [name for name in plain if name.startswith("gres/gpu:")]
    assert "gres/gpu" not in holds(request(), Resources(1, 1, 1), cpu(), UNBOUNDED)


@pytest.mark.parametrize(
    ("asked", "needs", "bounds", "memory"),
    [
        (7 * MIB, Demands(), {"default_memory_bytes_per_core": GIB}, 7 * MIB),
        (None, Demands(all_memory=True), {"default_memory_bytes_per_core": GIB}, 128 * GIB),
        (None, Demands(), {"default_memory_bytes_per_core": GIB}, 6 * GIB),
        (None, Demands(), {"default_memory_bytes_per_node": 3 * GIB}, 3 * GIB),
        (None, Demands(), {}, 128 * GIB),
    ],
)
def test_memory_of_the_fullest_node(
    asked: int | None, needs: Demands, bounds: dict[str, Any], memory: int
) -> None:
    held = Resources(3, 8, 2, 0, asked)
    assert memory_on_node(request(needs=needs), held, cpu(), QueueBounds(**bounds)) == memory


@pytest.mark.parametrize(
    ("bounds", "held", "needs", "broken"),
    [
        ({"max_nodes": 2}, Resources(2, 2, 1), Demands(), False),
        ({"max_nodes": 2}, Resources(3, 3, 1), Demands(), True),
        ({"max_nodes": 3}, Resources(1, 1, 1), Demands(max_nodes=4), True),
        ({"min_nodes": 2}, Resources(2, 2, 1), Demands(), False),
        ({"max_cores_per_node": 6}, Resources(3, 8, 2), Demands(), False),
        ({"max_cores_per_node": 5}, Resources(3, 8, 2), Demands(), True),
        ({"max_memory_bytes_per_node": GIB}, Resources(1, 1, 1, 0, GIB), Demands(), False),
        ({"max_memory_bytes_per_node": GIB}, Resources(1, 1, 1, 0, GIB + 1), Demands(), True),
        ({"max_memory_bytes_per_core": GIB}, Resources(1, 3, 2, 0, 6 * GIB), Demands(), False),
        ({"max_memory_bytes_per_core": GIB}, Resources(1, 3, 2, 0, 6 * GIB + 1), Demands(), True),
        ({"max_time_s": 3600.0}, Resources(1, 1, 1), Demands(), False),
        ({"max_time_s": 3599.0}, Resources(1, 1, 1), Demands(), True),
    ],
)
def test_a_limit_is_broken_by_more_than_it_allows(
    bounds: dict[str, Any], held: Resources, needs: Demands, broken: bool
) -> None:
    if held.memory_bytes_per_node is None:
        held = replace(held, memory_bytes_per_node=MIB)
    asked = request(needs=needs, nodes=held.nodes, time_limit_s=3600.0)
    assert (over_bounds(asked, held, cpu(), QueueBounds(**bounds)) is not None) == broken


GOOD = state()
ASKED = request(queue="auto", wants_placement=True)
FAST = forecast(curve("cpu", 1000.0), curve("gpu", 10.0, gpus=True))


def on_both(asked: Request, at_gpu: CandidateState, decider: Decider | None = None) -> Decision:
    decider = decider or Decider(BOTH, PolicySettings())
    return decider.decide(asked, {"cpu": GOOD, "gpu": at_gpu}, FAST, NOW_S)


def reason(decision: Decision) -> tuple[str | None, str | None]:
    """Why not the GPU candidate."""
    ranked = ranked_as(decision, "gpu")
    return ranked.code, ranked.excluded


@pytest.mark.parametrize(
    ("bounds", "asked", "sentence"),
    [
        ({"max_nodes": 1}, {"needs": Demands(max_nodes=2), "nodes": 1}, "1 nodes a job"),
        ({"min_nodes": 2}, {}, "wants at least 2 nodes a job and it needs 1"),
        ({"max_cores_per_node": 4}, {}, "allows 4 cores a node and it needs 8"),
        ({"max_cores_per_node": 8}, {"needs": Demands(min_cores_per_node=9)}, "allows 8 cores a"),
        ({"max_cores_per_node": 60}, {"needs": Demands(exclusive=True)}, "allows 60 cores a node"),
        ({"max_cores_per_node": 8}, {"needs": Demands(cores_per_gpu=9)}, "allows 8 cores a node"),
        ({"max_memory_bytes_per_node": GIB}, {"memory_bytes_per_node": 2 * GIB}, "memory a node"),
        (
            {"max_memory_bytes_per_node": GIB, "default_memory_bytes_per_core": GIB},
            {},
            "allows 1.0 GiB memory a node and it needs 8.0 GiB",
        ),
        (
            {"max_memory_bytes_per_node": GIB},
            {"needs": Demands(all_memory=True)},
            "needs 512.0 GiB",
        ),
        (
            {"max_memory_bytes_per_node": GIB, "default_memory_bytes_per_core": 1},
            {"needs": Demands(all_memory=True)},
            "needs 512.0 GiB",
        ),
        (
            {"max_memory_bytes_per_core": GIB},
            {"memory_bytes_per_node": 9 * GIB},
            "memory for its cores",
        ),
        ({"default_memory_bytes_per_node": 600 * GIB}, {}, "less than the default of the queue"),
        ({"max_time_s": H}, {"time_limit_s": 2 * H}, "a job and it needs"),
    ],
)
def test_a_job_over_a_limit_of_the_queue_does_not_go_there(
    bounds: dict[str, Any], asked: dict[str, Any], sentence: str
) -> None:
    job = request(queue="auto", wants_placement=True, **asked)
    assert on_both(job, GOOD).chosen == "gpu"
    result = on_both(job, state(bounds=QueueBounds(**bounds)))
    assert result.chosen == "cpu"
    code, excluded = reason(result)
    assert code == "queue-limit"
    assert sentence in (excluded or "")


@pytest.mark.parametrize(
    ("limit", "holds"),
    [
        (Limit(Scope.JOB, 7, "account physics", "cpu"), False),
        (Limit(Scope.JOB, 8, "account physics", "cpu"), True),
        (Limit(Scope.JOB, 0, "account physics", "gres/gpu"), False),
        (Limit(Scope.JOB, 0, "account physics", "gres/gpu:h100"), False),
        (Limit(Scope.JOB, 0, "account physics", "gres/gpu:a100"), True),
        (Limit(Scope.NODE, 7, "account physics", "cpu"), False),
        (Limit(Scope.LEAST, 2, "account physics", "gres/gpu"), False),
        (Limit(Scope.SECONDS, 8 * H - 1, "account physics", "cpu"), False),
        (Limit(Scope.SECONDS, 8 * H, "account physics", "cpu"), True),
        (Limit(Scope.TIME, H - 1, "account physics"), False),
        (Limit(Scope.TIME, H, "account physics"), True),
    ],
)
def test_a_job_over_a_limit_of_the_account_does_not_go_there(limit: Limit, holds: bool) -> None:
    job = request(queue="auto", wants_placement=True, time_limit_s=H)
    result = on_both(job, state(rights=FixedRights((limit,))))
    assert (result.chosen == "gpu") is holds
    if not holds:
        code, excluded = reason(result)
        assert code == "account-limit"
        assert "account physics" in (excluded or "")


def test_who_may_not_be_there_at_all_does_not_go_there() -> None:
    result = on_both(ASKED, state(rights=FixedRights(Denied("you have no association for gpu"))))
    assert reason(result) == ("not-associated", "you have no association for gpu")


def test_a_place_that_a_job_was_put_back_from_is_ruled_out_for_that_user_only() -> None:
    entry = RuledOut("gpu", "ada", "", "QOSMaxCpuPerJobLimit", "7", 0.0)
    at_gpu = state(ruled_out=(entry,))
    assert reason(on_both(ASKED, at_gpu))[0] == "ruled-out"
    other = request(queue="auto", wants_placement=True, user="bob")
    assert on_both(other, at_gpu).chosen == "gpu"


def test_one_user_alone_does_not_close_a_place_for_a_shared_profile() -> None:
    """Jobs get stuck by their users' own options, too; two users' are more than one's doing."""
    job = replace(ASKED, user="carol", workload="app")
    ada = RuledOut("gpu", "ada", "app", "PartitionConfig", "7", 0.0)
    assert on_both(job, state(ruled_out=(ada, replace(ada, job="8")))).chosen == "gpu"
    both = state(ruled_out=(ada, replace(ada, user="bob", job="9")))
    assert reason(on_both(job, both))[0] == "ruled-out"
    assert on_both(replace(job, workload="other"), both).chosen == "gpu"


def test_a_place_where_a_program_failed_at_once_is_out_for_that_program_only() -> None:
    job = replace(ASKED, workload="iqtree")
    entry = RuledOut("gpu", job.user, "iqtree", "failed here after 0 s", "7", 0.0, of_workload=True)
    there = state(ruled_out=(entry,))
    assert reason(on_both(job, there)) == ("ruled-out", "job 7 failed here after 0 s")
    assert on_both(replace(job, workload="other"), there).chosen == "gpu"
    assert on_both(replace(job, user="bob"), there).chosen == "gpu"


def test_what_is_remembered_of_a_shape_is_forgotten_with_the_states() -> None:
    """The same Decider, asked again and again: only the present states count."""
    decider = Decider(BOTH, PolicySettings())
    narrow = state(bounds=QueueBounds(max_cores_per_node=4))
    broken = state(usable_nodes=0)
    for at_gpu, code in ((GOOD, None), (narrow, "queue-limit"), (GOOD, None), (broken, "down")):
        for user in ("ada", "bob"):
            job = request(queue="auto", wants_placement=True, user=user)
            assert reason(on_both(job, at_gpu, decider))[0] == code
            again = Decider(BOTH, PolicySettings())
            assert on_both(job, at_gpu, decider) == on_both(job, at_gpu, again)


def test_the_order_of_reasons_is_that_of_what_can_be_changed_least() -> None:
    at_gpu = state(bounds=QueueBounds(max_cores_per_node=4), usable_nodes=0)
    assert reason(on_both(ASKED, at_gpu))[0] == "down"
    job = request(queue="auto", wants_placement=True, allowed_queues=frozenset(("cpu",)))
    assert reason(on_both(job, at_gpu))[0] == "queue-not-allowed"
    entry = RuledOut("gpu", "ada", "", "Limit", "7", 0.0)
    over = state(bounds=QueueBounds(max_cores_per_node=4), ruled_out=(entry,))
    assert reason(on_both(ASKED, over))[0] == "ruled-out"
