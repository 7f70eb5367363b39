"""``berth replay --live`` and ``berth why``: the queue of a scheduler, replayed forward."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from live_queue import FACTS, JOBS, NOW_S, job, node, pretend

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.cli.command_line import berth
from berth.plugin.replay.live import expected_times, next_hours
from berth.plugin.replay.present import present_queue
from berth.plugin.replay.queue_replay import Start, start_of
from berth.plugin.report.known_job import KnownJob
from berth.plugin.report.of_job import why_text
from berth.plugin.scheduler import ClusterFacts, JobNow
from berth.plugin.scheduler.facts import ReservationFacts
from berth.plugin.store import Store
from berth.policies.replay import Settings
from berth.policies.replay.settings import Backfill


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


def test_a_running_job_with_unequal_parts_on_its_nodes_holds_all_of_them() -> None:
    small, large = FACTS.nodes[0], replace(FACTS.nodes[1], cores=16, idle_cores=1)
    facts = replace(FACTS, nodes=(small, large))
    jobs = (
        job("1", cores=19, nodes=2, start_s=NOW_S - 10.0, node_names=("n1", "n2")),
        job("2", cores=8),
    )
    found = present_queue(facts, jobs)
    done = next_hours(found, Settings(Backfill.EASY), expected_times(found, None)).middle
    assert not done.refused.any()
    assert done.start_s[-1] >= done.end_s[0]


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


def test_no_waiting_job_starts_on_a_node_where_it_would_run_into_a_reservation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start_s(*reservations: ReservationFacts) -> float:
        pretend(monkeypatch, reservations)
        done = CliRunner().invoke(berth, ["replay", "--live", "--json"], env={"BERTH_SITE": None})
        assert done.exit_code == 0, done.exception
        _, mid, _ = json.loads(done.output)["replays"][0]["starts_s"]["3"]
        return float(mid)

    over, other = NOW_S - 10.0, NOW_S + 1e6
    end_s = NOW_S + 9_000.0
    maintenance = ReservationFacts("m", frozenset(["n1", "n2"]), NOW_S + 500.0, end_s)
    # Job 3 asks for 1,000 s: from 500 s before it on no node takes it.
    assert start_s(maintenance) >= end_s
    gone = ReservationFacts("gone", maintenance.nodes, 0.0, over)
    elsewhere = ReservationFacts("x", frozenset(["n3", "n9"]), NOW_S, other)
    assert start_s(gone, elsewhere) == start_s() < end_s


def test_jobs_that_wait_for_others_start_after_them() -> None:
    jobs = (
        job("9", priority=9.0, after=("3", "1")), job("3"), job("1", start_s=NOW_S - 40.0,
            node_names=("n2",)), job("8", after=("5",)), job("5", may_start=False),
    )  # fmt: skip
    found = present_queue(FACTS, jobs)
    assert [one.job_id for one in found.waiting] == ["3", "9"]
    assert found.left_out["wait for jobs that are not replayed"] == 1
    known = expected_times(found, None)
    starts = next_hours(found, Settings(Backfill.FCFS), known).middle
    assert starts.start_s[-1] >= starts.end_s[-2]


def test_jobs_that_never_start_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    large = job("9", nodes=3, cores=12)
    pretend(monkeypatch, jobs=(*JOBS, large, job("8", after=("9",))))
    done = CliRunner().invoke(berth, ["replay", "--live"], env={"BERTH_SITE": None})
    assert done.exit_code == 0, done.exception
    assert "1 never start, as their queue has not enough working nodes" in done.output
    assert "an even share each: 9\n" in done.output
    pretend(monkeypatch, jobs=())
    idle = CliRunner().invoke(berth, ["replay", "--live"], env={"BERTH_SITE": None})
    assert "No job runs or waits that could be replayed\n" in idle.output


def test_why_of_an_array_is_of_the_task_that_starts_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "berth.toml"
    site.write_text(
        'schema = "berth.site/1"\n[[candidates]]\nname = "a"\nplatform = "rome-7742"\n'
        'partition = "a"\nnodes = 2\n'
    )
    tasks = [job(f"20_{n}", "a", priority=9.0) for n in (1, 2, 3)]
    pretend(monkeypatch, jobs=(*JOBS, *tasks, job("9", nodes=3, cores=12)))
    store = Store.open(tmp_path / "berth.db")
    whole, _ = start_of("20", site, store)
    assert whole is not None
    assert whole == start_of("20_1", site, store)[0]
    none, why_not = start_of("9", site, store)
    assert none is None
    assert why_not is not None
    assert why_not.startswith("in a replay it never starts, as their queue has not enough")
    assert start_of("2", site, store) == (None, None)


def test_a_start_that_is_due_is_now() -> None:
    pending = JobNow("pending", "a", waits_for="its turn")
    now_s = time.time()

    def said(*moments_s: float) -> str:
        start = Start(*moments_s)
        return why_text(KnownJob("7", pending, None, None, None, (), start, None, None))

    assert "expected to start now (now to 100 s)" in said(now_s, now_s, now_s + 100.2)
    assert "expected to start in 100 s (now to later)" in said(now_s, now_s + 100.2, math.inf)


@pytest.mark.parametrize("shared_out", [True, False])
def test_memory_counts_where_the_scheduler_shares_it_out(shared_out: bool) -> None:
    gib = 2**30
    used = 6 * gib if shared_out else 0
    nodes = (replace(FACTS.nodes[0], memory_bytes=8 * gib, used_memory_bytes=used, idle_cores=3),)
    facts = replace(FACTS, nodes=nodes)
    jobs = (
        job("1", cores=1, memory_bytes=6 * gib, start_s=NOW_S - 10.0, node_names=("n1",)),
        job("2", cores=1, memory_bytes=3 * gib), job("3", cores=1, memory_bytes=2 * gib),
    )  # fmt: skip
    found = present_queue(facts, jobs)
    done = next_hours(found, Settings(Backfill.EASY), expected_times(found, None)).middle
    starts = dict(zip(("1", "2", "3"), done.start_s - NOW_S, strict=True))
    assert bool(starts["2"] > 0) is shared_out
    assert starts["3"] == 0


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("more", [["--cores", "4"], ["--set", "nodes.a.count=1"]])
def test_what_a_live_replay_does_not_have_is_one_sentence(more: list[str]) -> None:
    error = CliRunner().invoke(berth, ["replay", "--live", *more]).exception
    assert isinstance(error, BerthError)
    assert more[0] in error.message
    nothing = CliRunner().invoke(berth, ["replay"]).exception
    assert isinstance(nothing, BerthError)
    assert "which jobs" in nothing.message
