"""One library with NVML's symbols for the whole run; a fresh fleet and folder for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import runs
from fake_nvml import FakeFleet, build
from slurm_cluster import Cluster, ClusterUnavailable, cluster, require_slurm, wait_until
from slurm_node import FIRST, Node

from berth.plugin.mig.nvml import Nvml


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was tried: the claim is about all of it."""
    if any(runs.COUNTS.values()):
        terminalreporter.write_line(
            "MIG applies with injected faults: {failed} failed calls, {killed} killed "
            "processes".format(**runs.COUNTS)
        )


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def only_fleet(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> FakeFleet:
    return FakeFleet(nvml_library, tmp_path_factory.mktemp("fleet") / "state")


@pytest.fixture
def fleet(only_fleet: FakeFleet) -> Iterator[FakeFleet]:
    """One empty A100 with MIG on; `reset` makes another fleet."""
    only_fleet.reset("a100-40")
    yield only_fleet
    only_fleet.reset()


@pytest.fixture
def nvml(fleet: FakeFleet) -> Iterator[Nvml]:
    with Nvml() as opened:
        yield opened


@pytest.fixture
def state_folder() -> Iterator[Path]:
    """In memory where there is such a place: hundreds of journals wait for their disk."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="berth-mig-", dir=parent))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """Its own cluster: the tests restart its daemons."""
    try:
        require_slurm()
    except ClusterUnavailable as missing:
        pytest.skip(f"SLURM TESTS SKIPPED: {missing}")
    with cluster() as running:
        yield running


@pytest.fixture
def node(
    slurm: Cluster, fleet: FakeFleet, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Node]:
    """The node with ``FIRST`` published and no jobs."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.etc / "slurm.conf"))
    found = Node(slurm, fleet, state_folder)
    found.apply(FIRST)
    yield found
    slurm.cancel_everything()
    wait_until(lambda: not slurm.run("squeue", "-h").stdout.strip(), "all jobs have ended")
