"""Expected waits from the jobs that run and wait at present: cases by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from berth.plugin.replay.live import Known, expected_times, next_hours, with_hidden
from berth.plugin.replay.live import wait_tables as tables_of
from berth.plugin.replay.present import present_queue
from berth.plugin.scheduler import ClusterFacts, NodeFacts, PresentJob, QueueFacts
from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord, PlacedRun
from berth.policies.replay import Settings
from berth.policies.replay.live import TotalTimes
from berth.policies.values import Candidate
from berth.policies.waits import WaitTable

NOW = 10_000.0


def facts(idle: int = 0, idle_gpus: int = 0) -> ClusterFacts:
    nodes = (
        NodeFacts("c1", ("batch",), True, 8, idle, 2**34),
        NodeFacts("c2", ("batch",), False, 8, 0, 2**34),
        NodeFacts("g1", ("gpu",), True, 8, 8, 2**34, gpus={"gpu:a": 2},
                  idle_gpus={"gpu:a": idle_gpus}),
    )  # fmt: skip
    return ClusterFacts("x", "1", NOW, {n: QueueFacts(n, True) for n in ("batch", "gpu")}, nodes)


CANDIDATES = (
    Candidate("cpu", "quartz", "batch", cores_per_node=8, nodes=2),
    Candidate("gpu", "volta", "gpu", gres="gpu:a", gpus_per_node=2, cores_per_node=8, nodes=1),
)


def wait_tables(
    jobs: list[PresentJob], read: ClusterFacts, expected_s: dict[str, float]
) -> dict[str, WaitTable]:
    """By run times in all that are known exactly, else by the limit."""
    present = present_queue(read, jobs, CANDIDATES)
    seconds = np.array([expected_s.get(one.job_id, one.time_limit_s or 0) for one in present.jobs])
    known = Known(with_hidden(present, TotalTimes(seconds, seconds, seconds)), {}, 0)
    return tables_of(next_hours(present, Settings(), known), present, CANDIDATES)


def runs(job: str, cores: int, since_s: float, limit_s: float | None, **more: object) -> PresentJob:
    return PresentJob(
        job, "ada", ("batch",), True, cores, 0.0, node_names=("c1",), start_s=NOW - since_s,
        time_limit_s=limit_s, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def waits_for(job: str, cores: int, limit_s: float, priority: float = 0.0) -> PresentJob:
    return PresentJob(
        job, "bob", ("batch",), False, cores, NOW - 5, priority=priority, time_limit_s=limit_s
    )


def test_a_full_place_frees_when_its_jobs_are_expected_to_end() -> None:
    jobs = [runs("1", 4, 100.0, 1_100.0), runs("2", 4, 0.0, 5_000.0)]
    tables = wait_tables(jobs, facts(idle_gpus=2), {"2": 300.0})
    assert tables["cpu"].units == (1, 2, 4, 8)
    assert tables["cpu"].at(4, 60.0).mid == 300.0
    assert tables["cpu"].at(8, 60.0).mid == 1_000.0
    assert tables["gpu"].at(2, 60.0).mid == 0.0


def test_who_waits_comes_first_by_priority_and_gaps_are_used() -> None:
    jobs = [
        runs("1", 6, 0.0, 1_000.0), waits_for("2", 8, 500.0), waits_for("3", 4, 700.0, 9.0)
    ]  # fmt: skip
    table = wait_tables(jobs, facts(idle=2), {})["cpu"]
    # 6 cores until 1,000 s, then job 3 (4 cores) until 1,700 s, then job 2 until 2,200 s.
    assert table.at(2, 600.0).mid == 0.0
    assert table.at(4, 600.0).mid == 1_000.0
    assert table.at(8, 600.0).mid == 2_200.0
    assert table.at(2, 3_600.0).mid == 2_200.0, "it would not end before job 2 starts"


def test_held_jobs_do_not_count_and_cores_in_use_by_nobody_known_do() -> None:
    held = PresentJob("4", "eve", ("batch",), False, 8, 0.0, may_start=False, time_limit_s=9e5)
    table = wait_tables([held, runs("1", 4, 0.0, 50.0)], facts(), {})["cpu"]
    assert table.at(8, 60.0).mid == 50.0
    assert wait_tables([], facts(), {})["cpu"].at(8, 60.0).mid == 3_600.0


def test_jobs_with_gpus_wait_for_gpus() -> None:
    job = PresentJob("1", "ada", ("gpu",), True, 2, 0.0, gpus=2, node_names=("g1",), start_s=NOW,
                     time_limit_s=400.0)  # fmt: skip
    tables = wait_tables([job], facts(idle=8), {})
    assert tables["gpu"].at(1, 60.0).mid == 400.0
    assert tables["cpu"].at(8, 60.0).mid == 0.0


def test_a_job_that_has_run_longer_than_expected_runs_to_its_limit() -> None:
    job = runs("1", 8, 400.0, 1_000.0)
    table = wait_tables([job], facts(), {"1": 300.0})["cpu"]
    assert table.at(1, 60.0).mid == 600.0


def test_a_table_survives_json() -> None:
    table = wait_tables([runs("1", 8, 0.0, 50.0)], facts(), {})["cpu"]
    assert WaitTable.of_dict(json.loads(json.dumps(table.to_dict()))) == table


@pytest.mark.parametrize(
    "found", [{}, {"units": [1], "seconds": [None], "waits": [[["x", 1, 2]]]},
              {"units": [2, 1], "seconds": [None], "waits": [[[0, 0, 0]], [[0, 0, 0]]]}],
)  # fmt: skip
def test_what_is_no_table_is_refused(found: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        WaitTable.of_dict(found)


def test_expected_times_are_predicted_else_those_of_the_users_last_two(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "berth.db")
    row = {"candidate": "cpu", "platform": "quartz", "runtime_s": [10.0, 20.0, 90.0]}
    store.decisions.add([
        DecisionRecord(
            "abc", NOW, "h", "s", "ada", None, None, None, "enforce", "edit", "placed", "", "cpu",
            "b", "fastest", "", 1, ranked=json.dumps([row]),
        ),
        DecisionRecord(
            "odd", NOW, "h", "s", "ada", None, None, None, "enforce", "keep", "x", "", None,
            "b", "fastest", "", 1, ranked="[3]",
        ),
    ])  # fmt: skip
    store.outcomes.put([
        PlacedRun("x", str(n), "ada", "completed", end_s=NOW - 100 + n, elapsed_s=seconds)
        for n, seconds in enumerate((5.0, 100.0, 300.0))
    ])  # fmt: skip
    jobs = [
        runs("1", 1, 0.0, None, decision="abc"), runs("2", 1, 50.0, None, decision="abc"),
        runs("3", 1, 0.0, None, decision="odd"), runs("4", 1, 0.0, None, decision="gone"),
        waits_for("5", 1, 60.0),
    ]  # fmt: skip
    found = expected_times(present_queue(facts(idle=4, idle_gpus=2), jobs), store, CANDIDATES)
    store.close()
    assert found.times.mid_s.tolist() == [20.0, 20.0, 200.0, 200.0, 6.0]
    assert found.times.high_s[:2].tolist() == [90.0, 90.0]
    left = found.times.at(0.5, np.array([0.0, 50.0, 0.0, 0.0, 0.0]), np.full(5, np.nan))
    assert 60.0 < left[1] < 90.0, "it has run longer than the middle"
    assert (found.predicted, found.elsewhere["quartz"][0]) == (2, 20.0)
    assert found.times.low_s[4] < 6.0 < found.times.high_s[4] == 60.0


def test_a_table_has_a_width_where_times_are_not_certain() -> None:
    present = present_queue(facts(idle_gpus=2), [runs("1", 8, 0.0, 4_000.0)], CANDIDATES)
    known = Known(TotalTimes(*(np.array([one]) for one in (100.0, 1_000.0, 4_000.0))), {}, 0)
    found = tables_of(next_hours(present, Settings(), known), present, CANDIDATES)["cpu"]
    wait = found.at(8, 60.0)
    assert wait.mid == 1_000.0
    assert wait.low < 500.0
    assert wait.high > 2_000.0


def test_a_job_of_several_queues_waits_in_all_of_them() -> None:
    both = PresentJob("2", "bob", ("batch", "gpu"), False, 8, NOW, time_limit_s=900.0)
    tables = wait_tables([runs("1", 8, 0.0, 500.0), both], facts(idle_gpus=2), {})
    assert tables["cpu"].at(8, 60.0).mid == 500.0
    assert tables["gpu"].at(1, 60.0).mid == 900.0, "it started there"


def test_gpus_of_several_types_on_one_node_are_places_of_their_own() -> None:
    node = NodeFacts("m", ("gpu",), True, 8, 8, 2**34, gpus={"gpu:1g": 4, "gpu:3g": 1},
                     idle_gpus={"gpu:1g": 0, "gpu:3g": 1})  # fmt: skip
    cut = ClusterFacts("x", "1", NOW, {"gpu": QueueFacts("gpu", True)}, (node,))
    places = tuple(
        Candidate(name, name, "gpu", gres=f"gpu:{name}", gpus_per_node=1, cores_per_node=8)
        for name in ("1g", "3g")
    )
    job = PresentJob("1", "ada", ("gpu",), True, 2, 0.0, gpus=4, node_names=("m",), start_s=NOW,
                     time_limit_s=700.0)  # fmt: skip
    present = present_queue(cut, [job], places)
    exact = np.array([700.0])
    known = Known(with_hidden(present, TotalTimes(exact, exact, exact)), {}, 0)
    tables = tables_of(next_hours(present, Settings(), known), present, places)
    assert tables["1g"].at(1, 60.0).mid == 700.0
    assert tables["3g"].at(1, 60.0).mid == 0.0
