"""On a real Slurm: forecasts that are wrong by three on one kind of node are put right by jobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_daemon import FORECASTS, RealDaemon, by_time_alone, forecast, real_daemon, sure
from slurm_cluster import USER, Cluster, wait_until

from berth.plugin.store import Store
from berth.plugin.store.records import ForecastRecord, WorkloadRecord

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
    def amend(text: str) -> str:
        return f"{by_time_alone(text)}\n[learning]\nperiod_s = 1\n"

    with real_daemon(slurm, amend=amend) as running:
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


def test_jobs_go_to_the_right_kind_once_others_have_finished(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    first = [
        slurm.sbatch("-p", "auto", f"--comment=berth:{name}", script=SCRIPT) for name in PROGRAMS
    ]
    assert {slurm.job(job.id)["Partition"] for job in first} == {"gpu"}
    assert not any("learnt" in job.message for job in first)
    for job in first:
        assert slurm.wait_for_state(job.id, timeout_s=60) == "COMPLETED"
    store = Store.open(f"sqlite:///{daemon.store_file}", create=False)
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
    assert {slurm.job(job.id)["Partition"] for job in later} == {"cpu"}
    assert all("learnt from finished jobs (1 elsewhere" in job.message for job in later)
    pending, finished = (
        slurm.run(
            str(Path(sys.executable).with_name("berth")), "why", str(job.id), "--store",
            f"sqlite:///{daemon.store_file}",
        ).stdout
        for job in (later[0], first[0])
    )  # fmt: skip
    assert "pending in cpu, waits for its owner, who holds it: scontrol release" in pending
    assert "gpu instead: predicted" in pending
    assert re.search(r": completed after \d", finished)
    assert "predicted 1.3 s" in finished
    assert "for later forecasts it counts" in finished
    assert "cpu instead: predicted 2.2 s" in finished
