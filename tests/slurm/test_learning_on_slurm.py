"""On a real Slurm: forecasts wrong by three on one kind of node are put right; drift is noticed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from real_daemon import FORECASTS, RealDaemon, by_time_alone, forecast, real_daemon, sure
from slurm_cluster import USER, Cluster, wait_until

from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord, ForecastRecord, PlacedRun, WorkloadRecord

PROGRAMS = tuple(f"learner{n}" for n in range(5))
CPU_S, GPU_S = 2, 4
PREDICTED = {"quartz": sure(2.2), "lassen-v100": sure(1.3)}
"""Of a GPU job: a third of what it takes."""
SCRIPT = f"""#!/bin/sh
[ "$SLURM_JOB_PARTITION" = gpu ] && exec sleep {GPU_S}
exec sleep {CPU_S}
"""


@pytest.fixture
def daemon(slurm: Cluster) -> Iterator[RealDaemon]:
    with real_daemon(slurm, amend=by_time_alone) as running:
        store = Store.open(f"sqlite:///{running.store_file}")
        for name in PROGRAMS:
            made = forecast(name, PREDICTED)
            store.add(WorkloadRecord(name, made.kind, made.digest, "{}", "test", 0.0))
            store.put_forecast(ForecastRecord(name, made.bundle, made.to_json(), 0.0))
        store.close()
        wait_until(
            lambda: (
                (running.ask({"v": 1, "op": "stats"}) or {}).get("forecasts")
                == len(FORECASTS) + len(PROGRAMS)
            ),
            "the daemon has the forecasts",
            20,
        )
        yield running


@pytest.mark.slow
def test_jobs_go_to_the_right_kind_once_others_have_finished(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    first = [
        slurm.sbatch("-p", "auto", f"--comment=berth:{name}", script=SCRIPT) for name in PROGRAMS
    ]
    assert {slurm.job(job.id)["Partition"] for job in first} == {"gpu"}
    assert not any("learnt" in job.message for job in first)
    for job in first:
        assert slurm.wait_for_state(job.id, timeout_s=120) == "COMPLETED"
    store = Store.reading(f"sqlite:///{daemon.store_file}")
    wait_until(
        lambda: len(store.learning.of_user(USER, 100)) == len(PROGRAMS),
        "the jobs are evidence",
        60,
        note=lambda: slurm.log("berth"),
    )
    wait_until(
        lambda: (daemon.ask({"v": 1, "op": "stats"}) or {}).get("learnt") == len(PROGRAMS),
        "the daemon has learnt",
        20,
    )
    assert {record.use for record in store.learning.of_user(USER, 100)} == {"used"}
    store.close()
    later = [slurm.sbatch("-p", "auto", "--hold", f"--comment=berth:{name}") for name in PROGRAMS]
    assert {slurm.job(job.id)["Partition"] for job in later} == {"auto"}  # CPU nodes

    def why(job_id: int) -> str:
        return slurm.berth("why", str(job_id), "--store", f"sqlite:///{daemon.store_file}").stdout

    wait_until(lambda: "not in the store" not in why(later[0].id), "the decision is stored", 20)
    pending, finished = why(later[0].id), why(first[0].id)
    assert "pending in auto, waits for its owner, who holds it: scontrol release" in pending
    assert "gpu instead: ruled out: the job does better where it was submitted" in pending
    assert re.search(r": completed after \d", finished)
    assert "predicted 1.3 s" in finished
    assert "for later forecasts it counts" in finished
    assert "cpu instead: predicted 2.2 s" in finished


def store_finished(store: Store, now_s: float) -> int:
    """Twenty jobs of the five programs that ended before, two on each kind of node; how many."""
    decisions, outcomes = [], []
    for number in range(4):
        for n, name in enumerate(PROGRAMS):
            gpu = number % 2 == 1
            candidate, platform = ("gpu", "lassen-v100") if gpu else ("cpu", "quartz")
            took_s = float(GPU_S if gpu else CPU_S)
            end_s = now_s - 3_600.0 + 60.0 * (5 * number + n)
            key = f"before{number}{n}"
            row = {
                "candidate": candidate, "platform": platform, "nodes": 1, "cores": 1,
                "gpus": int(gpu), "score": 1.0, "runtime_s": [1.0, 2.0, 3.0],
            }  # fmt: skip
            decisions.append(
                DecisionRecord(
                    key, end_s - 100, "host", "slurm", USER, None, "auto", name, "enforce", "edit",
                    "placed", "because", candidate, "test", "fastest", "", 1,
                    request='{"size": null}', ranked=json.dumps([row]),
                )
            )  # fmt: skip
            outcomes.append(
                PlacedRun(
                    "test", f"9{number}{n}", USER, "completed", decision=key, partition=candidate,
                    submit_s=end_s - took_s - 5, start_s=end_s - took_s, end_s=end_s,
                    elapsed_s=took_s, workload=name, candidate=candidate, platform=platform,
                )
            )  # fmt: skip
    store.decisions.add(decisions)
    store.outcomes.put(outcomes)
    return len(outcomes)


@pytest.mark.slow
def test_a_kind_that_becomes_twice_as_slow_is_noticed_within_ten_jobs(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    store = Store.open(f"sqlite:///{daemon.store_file}", create=False)
    before = store_finished(store, time.time())
    wait_until(
        lambda: (daemon.ask({"v": 1, "op": "stats"}) or {}).get("learnt") == len(PROGRAMS),
        "the daemon has learnt",
        60,
        note=lambda: slurm.log("berth"),
    )
    assert "jobs take clearly" not in slurm.log("berth")
    slower = f"#!/bin/sh\nexec sleep {2 * CPU_S}\n"
    jobs = [
        slurm.sbatch("-p", "auto", f"--comment=berth:{name}", script=slower)
        for _ in range(2)
        for name in PROGRAMS
    ]
    placed = slurm.run("squeue", "-a", "-h", "-t", "all", "-o", "%A %P").stdout.split("\n")
    partitions = dict(line.split() for line in placed if line)
    assert {partitions[str(job.id)] for job in jobs} == {"auto"}, "the right kind"
    wait_until(
        lambda: len(store.learning.of_user(USER, 100)) == before + len(jobs),
        "the jobs are evidence",
        60,
        note=lambda: slurm.log("berth"),
    )
    wait_until(
        lambda: "platform quartz: jobs take clearly longer than before" in slurm.log("berth"),
        "the journal says it",
        20,
    )
    said = slurm.berth("jobs", "outcomes", "--store", f"sqlite:///{daemon.store_file}").stdout
    noticed = re.search(r"platform quartz: .* \(noticed after (\d+) jobs\)", said)
    assert noticed is not None, said
    assert int(noticed[1]) <= len(jobs)
    store.close()
