"""Jobs of unknown programs on Flux: the queue in which they fit, by daemon and frobnicator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_flux import recorded_flux, state
from flux_bench import FluxBench, asking, recorded
from flux_daemon import FluxHarbour, flux_harbour

QUEUES = {
    "auto": {"requires": ["cpunode"]},
    "cpu": {"requires": ["cpunode"]},
    "old": {"requires": ["cpunode"]},
    "gpu": {"requires": ["gpunode"], "policy": {"limits": {"duration": "2h"}}},
    "mig-1g.10gb": {"requires": ["mig-1g.10gb"]},
}


CONFIG: dict[str, Any] = {**recorded("rpc_config.get"), "queues": QUEUES}


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FluxHarbour]:
    """A daemon; of Flux there is only what it answered once."""
    status = {name: {"enable": True, "start": True} for name in QUEUES}
    answers = {"config.get": CONFIG, "job-manager.queue-status": status, "job-list.job-stats": {}}
    with flux_harbour("local:///nowhere") as made, pytest.MonkeyPatch.context() as patch:
        flux = recorded_flux(tmp_path_factory.mktemp("flux"), patch)
        flux.says("state", json.dumps(state(**answers)))
        made.start()
        yield made


@pytest.fixture
def bench(folder: Path, harbour: FluxHarbour) -> FluxBench:
    return FluxBench(folder, settings=harbour.settings(deadline_ms=1000), config=CONFIG)


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
