"""Jobs of unknown programs on Flux: the queue in which they fit, by daemon and frobnicator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_flux import recorded_flux, state
from flux_bench import FluxBench, asking, recorded
from flux_daemon import flux_harbour

QUEUES = {
    "auto": {"requires": ["cpunode"]},
    "cpu": {"requires": ["cpunode"]},
    "old": {"requires": ["cpunode"]},
    "gpu": {"requires": ["gpunode"], "policy": {"limits": {"duration": "2h"}}},
    "mig-1g.10gb": {"requires": ["mig-1g.10gb"]},
}


@pytest.fixture
def bench(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FluxBench]:
    """A frobnicator and a daemon; of Flux there is only what it answered once."""
    config: dict[str, Any] = recorded("rpc_config.get")
    config["queues"] = QUEUES
    status = {name: {"enable": True, "start": True} for name in QUEUES}
    answers = {"config.get": config, "job-manager.queue-status": status, "job-list.job-stats": {}}
    recorded_flux(tmp_path, monkeypatch).says("state", json.dumps(state(**answers)))
    with flux_harbour("local:///nowhere") as harbour:
        harbour.start()
        yield FluxBench(folder, settings=harbour.settings(deadline_ms=1000), config=config)


def system_of(spec: dict[str, Any]) -> dict[str, Any]:
    """The attributes that Flux reads, without the decision."""
    system: dict[str, Any] = spec["attributes"]["system"]
    return system


@pytest.mark.parametrize(
    ("form", "queue", "code"),
    [
        ("n1", "auto", "no-workload"),
        ("N2n4c2", "auto", "no-workload"),
        ("n2g1_gpu", "gpu", "fits-one"),
    ],
)
def test_the_job_stays_where_it_runs_and_else_goes_where_it_fits(
    bench: FluxBench, form: str, queue: str, code: str
) -> None:
    """A Flux job has one queue, so a program of which nothing is known is moved for need only."""
    asked = asking(form, workload="nobody")
    placed = bench.frob(asked)
    assert f"code={code} " in placed["attributes"]["user"]["berth"]["decision"]
    assert system_of(placed) == {**system_of(asked), "queue": queue}
    assert placed["resources"] == asked["resources"]


@pytest.mark.parametrize(
    "change",
    [
        {"duration": 10_000.0},  # longer than any queue with GPUs takes
        {"constraints": {"properties": ["nowhere"]}},
        {"constraints": {"hostlist": ["node1"]}},
        {"queue": "old"},
    ],
)
def test_a_job_that_fits_nowhere_or_has_its_queue_stays(
    bench: FluxBench, change: dict[str, Any]
) -> None:
    asked = asking("n2g1_gpu", workload="nobody")
    system_of(asked).update(change)
    placed = bench.frob(asked)
    assert system_of(placed) == system_of(asked)
    assert placed["resources"] == asked["resources"]
