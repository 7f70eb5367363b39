"""Finished jobs on several nodes change how a program's time changes with the nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from site_jobs import CPU, SiteJobs, forecast, learner

from berth.plugin.store import Store
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.nodes import NodeRatio, NodeScaling
from berth.predictor.core.prediction import Basis, Interval


def on_nodes(*ratios: NodeRatio) -> Forecast:
    """The forecast of a program with 100 s on one node, and how that changes with nodes."""
    found = {CPU: ratios} if ratios else {}
    measured = (1, *(one.nodes for one in ratios))
    scaling = NodeScaling(measured, measured_on=CPU, ratios=found)
    return replace(forecast("app", {CPU: 100}), nodes=scaling)


def ratio(nodes: int, low: float, mid: float, high: float) -> NodeRatio:
    return NodeRatio(nodes, Interval(low, mid, high), Interval(1.0, 1.0, 1.0))


def learnt_of(store: Store) -> Forecast:
    return Forecast.from_json(store.learning.forecasts("app")[0].document)


def seconds(one: Forecast, nodes: int, units: int = 2) -> Interval:
    found = one.runtime_at(CPU, units * nodes, nodes=nodes)
    assert found is not None
    return found


def test_jobs_on_several_nodes_move_how_the_time_changes_with_nodes(
    store: Store, jobs: SiteJobs
) -> None:
    """What the network costs was not known well: it moves, and the time on one node less."""
    base = on_nodes(ratio(2, 0.4, 0.5, 0.7), ratio(4, 0.15, 0.25, 0.45))
    jobs.workload(base)
    for _ in range(4):
        jobs.job("app", 50, units=8, nodes=4)
    assert learner(store).until_done().used == 4
    after = learnt_of(store)
    assert seconds(after, 4).mid == pytest.approx(50, rel=0.05)
    assert 100 < seconds(after, 1).mid < 165
    assert 50 < seconds(after, 2).mid < 100
    point = after.prediction(CPU, 8, 4)
    assert point is not None
    assert (point.basis, point.abstained, point.cores) == (Basis.MEASURED, None, 8)
    assert point.runtime_s == seconds(after, 4)
    assert seconds(after, 4).high / seconds(after, 4).low < 1.5
    other = after.prediction(CPU, 4, 4)  # with fewer cores of each node it never ran
    assert other is not None
    assert other.basis is Basis.LEARNED
    assert after.content_digest != base.content_digest


def test_jobs_on_one_node_move_all_numbers_of_nodes(store: Store, jobs: SiteJobs) -> None:
    jobs.workload(on_nodes(ratio(4, 0.2, 0.25, 0.3)))
    jobs.job("app", 300, nodes=1)
    assert learner(store).until_done().used == 1
    after = learnt_of(store)
    assert seconds(after, 1).mid > 130
    assert seconds(after, 4).mid == pytest.approx(seconds(after, 1).mid / 4)


def test_a_program_piloted_on_one_node_is_known_where_its_jobs_ran(
    store: Store, jobs: SiteJobs
) -> None:
    jobs.workload(on_nodes())
    before = on_nodes().prediction(CPU, 8, 4)
    assert before is not None
    assert before.abstained is not None
    for _ in range(3):
        jobs.job("app", 40, units=8, nodes=4)
    learner(store).until_done()
    after = learnt_of(store)
    four, eight = after.prediction(CPU, 8, 4), after.prediction(CPU, 16, 8)
    assert four is not None
    assert eight is not None
    assert four.abstained is None
    assert four.runtime_s.low < 40 < four.runtime_s.high
    assert eight.abstained is not None
    assert "measured on one node only" in eight.abstained
