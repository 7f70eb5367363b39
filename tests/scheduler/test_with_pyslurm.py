"""pyslurm as a reader: with a stand-in module, and refused where it is another Slurm's."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_slurm import FakeSlurm

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.slurm.with_pyslurm import PySlurm

PARTITION = {
    "name": "gpu",
    "state": "UP",
    "is_default": True,
    "max_time": 120,
    "default_time": "UNLIMITED",
    "allowed_accounts": ["ALL"],
    "allowed_qos": ["high"],
}
NODE = {
    "name": "n1",
    "partitions": ["gpu"],
    "state": "MIXED",
    "sockets": 2,
    "cores_per_socket": 16,
    "total_cpus": 64,
    "idle_cpus": 40,
    "real_memory": 512_000,
    "architecture": "x86_64",
    "active_features": ["h100"],
    "available_features": ["h100"],
    "configured_gres": {"gpu:h100": 4, "shard": 8},
    "allocated_gres": {"gpu:h100": 1},
}


def stand_in(version: str = "25.11.2", **node: Any) -> SimpleNamespace:
    def loads(*things: dict[str, Any]) -> Any:
        found = {i: SimpleNamespace(**thing) for i, thing in enumerate(things)}
        return SimpleNamespace(load=lambda: found)

    return SimpleNamespace(
        __version__=version,
        Nodes=loads({**NODE, **node}),
        Partitions=loads(PARTITION),
        Jobs=loads(
            {"state": "PENDING", "partition": "gpu,cpu"}, {"state": "RUNNING", "partition": "gpu"}
        ),
    )


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path / "slurm", monkeypatch)
    fake.says("version", "slurm 25.11.0\n")
    return fake


def test_a_matching_one_is_read(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", stand_in())
    facts = PySlurm().read()
    queue, (node,) = facts.queues["gpu"], facts.nodes
    assert (queue.max_time_s, queue.default_time_s, queue.pending_jobs) == (7200.0, None, 1)
    assert (queue.allowed_accounts, queue.allowed_qos) == (None, ("high",))
    assert (node.cores, node.idle_cores, node.usable) == (32, 20, True)
    assert (node.gpus, node.idle_gpus) == ({"gpu:h100": 4}, {"gpu:h100": 3})


@pytest.mark.parametrize("version", ["24.11.1", "26.05.0", "?"])
def test_one_made_for_another_slurm_is_refused(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", stand_in(version))
    with pytest.raises(ToolMissing, match=r"25\.11") as missing:
        PySlurm().read()
    assert "use the commands" in (missing.value.hint or "")


def test_what_it_gives_may_be_unreadable(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", stand_in(sockets=None))
    with pytest.raises(SchedulerError):
        PySlurm().read()
