"""``berth replay --live`` and ``berth why``: the queue of a scheduler, replayed forward."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from live_queue import FACTS, JOBS, NOW_S, node, pretend

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.cli import berth
from berth.plugin.replay.present import present_queue
from berth.plugin.scheduler import ClusterFacts


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)


def test_running_jobs_hold_their_nodes_and_the_others_stand_in_order() -> None:
    found = present_queue(FACTS, JOBS)
    assert [one.job_id for one in found.jobs] == ["1", "2", "4", "3"]
    assert sorted(int(units[0]) for units in found.queue.units) == [0, 1]
    assert found.queue.elapsed_s.tolist() == [40.0, 900.0, 0.0, 0.0]
    assert sum(found.left_out.values()) == 3
    assert len(found.jobs) + sum(found.left_out.values()) == len(JOBS)


def test_a_cluster_without_a_node_that_works_says_so() -> None:
    down = ClusterFacts("c", "1", NOW_S, FACTS.queues, (node("n3", "b", usable=False),))
    with pytest.raises(UsageError, match="no node of the cluster works"):
        present_queue(down, JOBS)


@pytest.mark.usefixtures("here")
def test_the_next_hours_as_text_and_json() -> None:
    done = CliRunner().invoke(berth, ["replay", "--live"], env={"BERTH_SITE": None})
    assert done.exit_code == 0, done.exception
    assert "2 jobs run and 2 wait" in done.output
    assert "1 left out: they are in a queue that has no node that works" in done.output
    asked = ["replay", "--live", "--json", "--backfill", "fcfs", "--backfill", "easy"]
    data = json.loads(CliRunner().invoke(berth, asked, env={"BERTH_SITE": None}).output)
    assert [one["name"] for one in data["replays"]] == ["fcfs", "easy"]
    low, mid, high = data["replays"][0]["starts_s"]["4"]
    # It waits for the node of job 1, which has 960 s at most; and before job 3 nobody does.
    assert NOW_S <= low < mid <= high
    assert data["replays"][0]["figures"]["started_in_1_h"] == [2, 2, 2]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("more", [["--cores", "4"], ["--set", "nodes.a.count=1"]])
def test_what_a_live_replay_does_not_have_is_one_sentence(more: list[str]) -> None:
    error = CliRunner().invoke(berth, ["replay", "--live", *more]).exception
    assert isinstance(error, BerthError)
    assert more[0] in error.message
    nothing = CliRunner().invoke(berth, ["replay"]).exception
    assert isinstance(nothing, BerthError)
    assert "which jobs" in nothing.message
