"""What a forecast tells: times learnt from jobs, intervals that fail, several nodes."""

from __future__ import annotations

from dataclasses import replace

from policy_builders import GIB, GPU, PREDICTED, cpu, curve, decided, forecast, ranked_as, request

from berth.policies.codes import Code
from berth.policies.values import Decision
from berth.predictor.core.forecast import Forecast, SourceShare
from berth.predictor.core.nodes import NodeRatio, NodeScaling
from berth.predictor.core.prediction import Interval

DOUBT = "predicted times on gpu held for only 3 of the last 20 jobs"


def test_the_sentence_says_from_which_jobs_a_time_was_learnt() -> None:
    shares = (SourceShare("finished jobs: 3 here, 2 elsewhere", 1.0, 0.1, "roofline"),)
    learnt = replace(PREDICTED, sources={GPU.platform: shares})
    assert ", learnt from finished jobs (3 here, 2 elsewhere)" in decided(predicted=learnt).reason
    assert "learnt" not in decided().reason


def test_a_platform_whose_intervals_fail_is_not_enforced() -> None:
    doubted = replace(PREDICTED, doubted={GPU.platform: DOUBT})
    decision = decided(predicted=doubted)
    assert decision.chosen == "cpu"
    on_gpu = ranked_as(decision, "gpu")
    assert (on_gpu.code, on_gpu.excluded) == (Code.INTERVALS_FAIL, DOUBT)
    assert decision.inputs_digest != decided().inputs_digest
    assert decided(predicted=doubted, strict=False).chosen == "gpu"


def test_doubts_are_stored_with_the_forecast() -> None:
    for doubted in ({GPU.platform: DOUBT}, {}):
        stored = replace(PREDICTED, doubted=doubted).to_json()
        assert Forecast.from_json(stored).doubted == doubted


FAST, SLOW = cpu("fast", nodes=16), cpu("slow", nodes=16)


def ratios(*times: float, memory: float = 1.0) -> tuple[NodeRatio, ...]:
    """Of 1, 2, 4 and 8 nodes."""
    return tuple(
        NodeRatio(n, Interval(t * 0.95, t, t * 1.05), Interval(1.0, memory, memory))
        for n, t in zip((1, 2, 4, 8), times, strict=True)
    )


def known(nodes: NodeScaling | None) -> Forecast:
    return forecast(curve("fast", 500.0), curve("slow", 800.0), nodes=nodes)


# One node of "fast" is faster, but its network is slow.
SCALING = NodeScaling(
    measured=(1, 2, 4),
    measured_on="fast",
    ratios={"fast": ratios(1, 0.9, 0.9, 1.0), "slow": ratios(1, 0.52, 0.27, 0.15)},
)


def run(nodes: int, predicted: Forecast, **settings: object) -> Decision:
    asked = request(nodes=nodes, tasks=8 * nodes, pinned=("nodes",))
    return decided(asked, (FAST, SLOW), predicted, **settings)


def test_the_place_changes_with_the_number_of_nodes() -> None:
    assert run(1, known(SCALING)).chosen == "fast"
    four = run(4, known(SCALING))
    assert four.chosen == "slow"
    best = four.ranked[0]
    assert best.resources.nodes == 4
    assert best.runtime_s.mid == 800 / 8 * 0.27
    assert "4 nodes, 32 cores of slow" in four.reason


def test_more_nodes_than_are_known_leave_the_job_alone_with_what_to_run() -> None:
    far = run(9, known(SCALING))
    assert (far.chosen, far.code) == (None, "out-of-range")
    assert "tells of at most 8" in far.reason
    alone = run(2, known(NodeScaling((1,), measured_on="fast")))
    assert alone.chosen is None
    assert "measured on one node only" in alone.reason
    assert "berth pilot submit --nodes 1,2,4" in alone.reason


def test_a_person_who_asks_is_shown_a_guess_with_a_warning() -> None:
    shown = run(9, known(SCALING), strict=False)
    assert shown.ranked[0].guess
    assert shown.ranked[0].warning is not None
    assert "only a guess" in shown.ranked[0].warning


def test_what_says_nothing_of_nodes_is_decided_as_before() -> None:
    assert run(4, known(None)).chosen == "fast"


def test_memory_of_several_nodes_is_that_of_all_of_them() -> None:
    more = NodeScaling(
        measured=(1, 2, 4),
        measured_on="fast",
        ratios={name: ratios(1, 0.5, 0.3, 0.2, memory=3.5) for name in ("fast", "slow")},
    )
    small = cpu("fast", nodes=16, memory_bytes_per_node=2 * GIB)
    asked = request(nodes=2, tasks=16, pinned=("nodes",))
    decision = decided(asked, (small,), known(more))
    assert decision.chosen is None
    assert decision.ranked[0].code == "memory"


def test_decisions_by_other_scalings_have_other_ids() -> None:
    faster = NodeScaling((1, 2, 4), measured_on="fast", ratios={"fast": ratios(1, 0.5, 0.3, 0.2)})
    ids = {run(1, known(scaling)).inputs_digest for scaling in (None, SCALING, faster)}
    assert len(ids) == 3
