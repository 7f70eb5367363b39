"""Limits of queues and accounts rule places out, each with its own sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from policy_builders import GIB, NOW_S, H, cpu, curve, forecast, gpu, request, state, translated

from berth.policies import CandidateState, Decider, Decision, PolicySettings, Resources
from berth.policies.limits import Denied, Limit, Rights, Scope
from berth.policies.values import Needs, QueueBounds, Request, RuledOut

PLACES = (cpu(), gpu())
GOOD = state()
ASKED = request(queue="auto", wants_placement=True)
FAST = forecast(curve("cpu", 1000.0), curve("gpu", 10.0, gpus=True))


@dataclass(frozen=True)
class Same(Rights):
    """The same limits for everybody and everywhere."""

    found: tuple[Limit, ...] | Denied

    @property
    def digest(self) -> str:
        return repr(self.found)

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        return self.found


def decided(asked: Request, at_gpu: CandidateState, decider: Decider | None = None) -> Decision:
    decider = decider or Decider(PLACES, PolicySettings())
    return decider.decide(asked, {"cpu": GOOD, "gpu": at_gpu}, FAST, NOW_S)


def reason(decision: Decision) -> tuple[str | None, str | None]:
    """Why not the GPU place."""
    (row,) = (row for row in decision.ranked if row.candidate == "gpu")
    return row.code, row.excluded


@pytest.mark.parametrize(
    ("bounds", "asked", "sentence"),
    [
        ({"max_nodes": 1}, {"needs": Needs(max_nodes=2), "nodes": 1}, "1 nodes a job"),
        ({"min_nodes": 2}, {}, "wants at least 2 nodes a job and it needs 1"),
        ({"max_cores_per_node": 4}, {}, "allows 4 cores a node and it needs 8"),
        ({"max_cores_per_node": 8}, {"needs": Needs(min_cores_per_node=9)}, "allows 8 cores a"),
        ({"max_cores_per_node": 60}, {"needs": Needs(exclusive=True)}, "allows 60 cores a node"),
        ({"max_cores_per_node": 8}, {"needs": Needs(cores_per_gpu=9)}, "allows 8 cores a node"),
        ({"max_memory_bytes_per_node": GIB}, {"memory_bytes_per_node": 2 * GIB}, "memory a node"),
        (
            {"max_memory_bytes_per_node": GIB, "default_memory_bytes_per_core": GIB},
            {},
            "allows 1.0 GiB memory a node and it needs 8.0 GiB",
        ),
        ({"max_memory_bytes_per_node": GIB}, {"needs": Needs(all_memory=True)}, "needs 512.0 GiB"),
        (
            {"max_memory_bytes_per_node": GIB, "default_memory_bytes_per_core": 1},
            {"needs": Needs(all_memory=True)},
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
    assert decided(job, GOOD).chosen == "gpu"
    found = decided(job, state(bounds=QueueBounds(**bounds)))
    assert found.chosen == "cpu"
    code, excluded = reason(found)
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
    found = decided(job, state(rights=Same((limit,))))
    assert (found.chosen == "gpu") is holds
    if not holds:
        code, excluded = reason(found)
        assert code == "account-limit"
        assert "account physics" in (excluded or "")


def test_who_may_not_be_there_at_all_does_not_go_there() -> None:
    found = decided(ASKED, state(rights=Same(Denied("you have no association for gpu"))))
    assert reason(found) == ("not-associated", "you have no association for gpu")


def test_a_place_that_a_job_was_put_back_from_is_ruled_out_for_that_user_only() -> None:
    entry = RuledOut("gpu", "ada", "", "QOSMaxCpuPerJobLimit", "7", 0.0)
    at_gpu = state(ruled_out=(entry,))
    assert reason(decided(ASKED, at_gpu))[0] == "ruled-out"
    other = request(queue="auto", wants_placement=True, user="bob")
    assert decided(other, at_gpu).chosen == "gpu"


def test_one_user_alone_does_not_close_a_place_for_a_shared_profile() -> None:
    """Jobs get stuck by their users' own options, too; two users' are more than one's doing."""
    job = replace(ASKED, user="carol", workload="app")
    ada = RuledOut("gpu", "ada", "app", "PartitionConfig", "7", 0.0)
    assert decided(job, state(ruled_out=(ada, replace(ada, job="8")))).chosen == "gpu"
    both = state(ruled_out=(ada, replace(ada, user="bob", job="9")))
    assert reason(decided(job, both))[0] == "ruled-out"
    assert decided(replace(job, workload="other"), both).chosen == "gpu"


def test_what_is_remembered_of_a_shape_is_forgotten_with_the_states() -> None:
    """The same Decider, asked again and again: only the present states count."""
    decider = Decider(PLACES, PolicySettings())
    narrow = state(bounds=QueueBounds(max_cores_per_node=4))
    broken = state(usable_nodes=0)
    for at_gpu, code in ((GOOD, None), (narrow, "queue-limit"), (GOOD, None), (broken, "down")):
        for user in ("ada", "bob"):
            job = request(queue="auto", wants_placement=True, user=user)
            assert reason(decided(job, at_gpu, decider))[0] == code
            again = Decider(PLACES, PolicySettings())
            assert decided(job, at_gpu, decider) == decided(job, at_gpu, again)


def test_the_order_of_reasons_is_that_of_what_can_be_changed_least() -> None:
    at_gpu = state(bounds=QueueBounds(max_cores_per_node=4), usable_nodes=0)
    assert reason(decided(ASKED, at_gpu))[0] == "down"
    job = request(queue="auto", wants_placement=True, allowed_queues=frozenset(("cpu",)))
    assert reason(decided(job, at_gpu))[0] == "queue-not-allowed"
    entry = RuledOut("gpu", "ada", "", "Limit", "7", 0.0)
    over = state(bounds=QueueBounds(max_cores_per_node=4), ruled_out=(entry,))
    assert reason(decided(ASKED, over))[0] == "ruled-out"


def test_as_many_tasks_as_asked_fit_on_a_node_even_where_there_are_fewer() -> None:
    asked = request(nodes=1, tasks=4, needs=Needs(tasks_per_node=40))
    assert translated(asked, cpu()) == "your tasks per node take 40 cores and a node has 32"
    assert translated(asked, cpu(cores_per_node=40)) == Resources(1, 4, 1)
    assert translated(asked, gpu()) == Resources(1, 1, 8, 1)
