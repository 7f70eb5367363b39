"""``berth replay`` on a real slurmdbd and a real store: times elsewhere, reservations."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from slurm_cluster import USER, Cluster, wait_until

from berth.plugin.slurm.accounting import past_jobs
from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord, PlacedRun

SITE = """\
schema = "berth.site/1"
[site]
name = "test"
reference_platform = "quartz"
[daemon]
store = "sqlite:///{store}"
[[candidates]]
name = "cpu"
platform = "quartz"
partition = "cpu"
nodes = 2
cores_per_node = 32
memory_per_node = "120G"
[[candidates]]
name = "fat"
platform = "rome-7742"
partition = "mig"
nodes = 1
cores_per_node = 32
memory_per_node = "120G"
"""
SECOND = "#!/bin/sh\nexec sleep 1\n"


class Ended(NamedTuple):
    """Jobs that ended on the cluster, and where Berth's files are."""

    cluster: Cluster
    site: Path
    store: Path
    jobs: tuple[str, ...]
    """Two alone, one that waited for the first, and two tasks of an array of which one ran at once.
    """

    def replay(self, *words: str) -> str:
        done = self.cluster.berth("replay", *words, "--site", str(self.site))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def data(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.replay(*words, "--json"))
        return found


@pytest.fixture(scope="module")
def ended(accounted_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    cluster, folder = accounted_cluster, tmp_path_factory.mktemp("replay")
    site, file = folder / "berth.toml", folder / "berth.db"
    site.write_text(SITE.format(store=file))
    one = ("-p", "cpu", "-n", "1", "--mem=10", "-t", "60")
    first = cluster.sbatch(*one, script=SECOND).id
    rest = [
        cluster.sbatch(*one, script=SECOND).id,
        cluster.sbatch(*one, "-d", f"afterok:{first}", script=SECOND).id,
    ]
    array = cluster.sbatch(*one, "-a", "1-2%1", script=SECOND).id
    jobs = (*map(str, (first, *rest)), f"{array}_1", f"{array}_2")
    with pytest.MonkeyPatch.context() as patch:
        for key, value in cluster.environment.items():
            patch.setenv(key, value)
        wait_until(lambda: past_jobs("test", 0.0).jobs.keys() >= set(jobs), "all have ended", 90)
        now_s = time.time()
    with_decisions(file, jobs, now_s)
    return Ended(cluster, site, file, jobs)


def with_decisions(file: Path, jobs: tuple[str, ...], now_s: float) -> None:
    """Berth decided upon all; the last ran on the other platform, in a fifth of a second."""
    store = Store.open(f"sqlite:///{file}")
    rows = [
        {"candidate": "fat", "platform": "rome-7742", "runtime_s": [0.2, 0.4, 0.8]},
        {"candidate": "cpu", "platform": "quartz", "runtime_s": [0.8, 1.0, 1.5]},
    ]
    store.decisions.add([
        DecisionRecord(
            f"d{job}", now_s - 60, "h", "slurm", USER, None, None, "app", "enforce", "edit",
            "placed", "", "cpu", "b", "fastest", "", 1, ranked=json.dumps(rows),
        )
        for job in jobs
    ])  # fmt: skip
    store.outcomes.put([
        PlacedRun(
            "test", job, USER, "completed", decision=f"d{job}", submit_s=now_s - 2,
            start_s=now_s - 1, end_s=now_s, elapsed_s=0.2 if job == jobs[-1] else 1.0,
            workload="app", candidate="cpu", platform="rome-7742" if job == jobs[-1] else "quartz",
        )
        for job in jobs
    ])  # fmt: skip
    store.close()


@pytest.mark.slow
def test_the_accounting_is_replayed_with_dependencies_and_limits_of_arrays(ended: Ended) -> None:
    found = ended.data("--accounting", "--days", "1")
    counts = found["replays"][0]["counts"]
    assert found["trace"] == "Slurm's accounting"
    assert counts["read"] >= len(ended.jobs)
    assert counts["read"] == counts["replayed"] + sum(counts["refused"].values())
    # One after the other: what waited for the first, and the tasks of the array.
    assert found["replays"][0]["makespan_s"] >= 2.0


@pytest.mark.parametrize("source", ["outcomes", "forecasts"])
@pytest.mark.slow
def test_times_elsewhere_come_from_the_store(ended: Ended, source: str) -> None:
    asked = ("--accounting", "--policy", "fastest", "--truth", source, "--seeds", "3")
    found = ended.data(*asked)
    assert found["known_elsewhere"] == {source: len(ended.jobs)}
    stay, placed = (one for one in found["replays"])
    assert placed["counts"]["moved"] == len(ended.jobs)
    assert placed["mean_finish_s"] < stay["mean_finish_s"]
    if source == "forecasts":
        intervals = placed["intervals"].values()
        assert any(low < high for low, high in intervals), "drawn from what was predicted"
    assert f"times elsewhere by {source}: known of {len(ended.jobs)} jobs" in ended.replay(*asked)


@pytest.mark.slow
def test_a_store_that_knows_nothing_is_one_sentence(ended: Ended, tmp_path: Path) -> None:
    Store.open(f"sqlite:///{tmp_path}/empty.db").close()
    done = ended.cluster.berth(
        "replay", "--accounting", "--policy", "fastest", "--truth", "outcomes", "--truth",
        "forecasts", "--site", str(ended.site), "--store", f"sqlite:///{tmp_path}/empty.db",
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "know of no job how long it takes on another platform" in done.stderr
    assert "Traceback" not in done.stderr


def test_reservations_keep_nodes_from_jobs_that_wait(ended: Ended) -> None:
    cluster = ended.cluster
    cluster.run(
        "scontrol", "create", "reservation", "ReservationName=service", "StartTime=now+3minutes",
        "Duration=60", "Nodes=cpu1,cpu2", "Users=root", "Flags=maint,ignore_jobs",
    )  # fmt: skip
    try:
        waits = cluster.sbatch("-p", "cpu", "-n", "1", "--mem=10", "-t", "30", script=SECOND).id
        live = ended.data("--live")
        assert live["left_out"] == {}
        assert live["waiting"] == 1
        _, mid_s, _ = live["replays"][0]["starts_s"][str(waits)]
        assert mid_s - live["as_of_s"] >= 3_600, "after the reservation"
    finally:
        cluster.cancel_everything()
        cluster.run("scontrol", "delete", "reservation=service")
