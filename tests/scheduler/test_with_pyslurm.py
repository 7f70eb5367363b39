"""pyslurm as a reader: with recorded data in its form, and refused where it is another Slurm's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fake_commands import FakeCommands
from fake_pyslurm import recorded_pyslurm
from fake_slurm import recorded_slurm

from berth.pilot.errors import DocumentError, SchedulerError, ToolMissing
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site import load_site
from berth.plugin.slurm.scheduler import Slurm, SlurmSettings

MIB = 2**20
WITH_PYSLURM = Slurm(SlurmSettings(read_with="pyslurm"))


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    fake = recorded_slurm(tmp_path / "slurm", monkeypatch)
    fake.says("version", "slurm 25.11.0\n")
    return fake


def test_a_matching_one_is_read(slurm: FakeCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", recorded_pyslurm())
    facts = WITH_PYSLURM.read(full=False)
    queue, node = facts.queues["gpu"], facts.nodes[0]
    assert (queue.max_time_s, queue.default_time_s, queue.pending_jobs) == (7200.0, None, 1)
    assert (queue.allowed_accounts, queue.allowed_qos) == (None, ("high",))
    assert (node.cores, node.idle_cores, node.usable) == (30, 20, True)
    assert node.memory_bytes == 500_000 * MIB  # and 12,000 for the system
    assert (node.gpus, node.idle_gpus) == ({"gpu:h100": 4}, {"gpu:h100": 3})
    assert node.system == "Linux 6.1.0-18-amd64"
    assert (queue.bounds.max_nodes, queue.bounds.max_cores_per_node) == (2, None)
    assert (queue.bounds.max_memory_bytes_per_node, queue.bounds.max_time_s) == (4000 * MIB, 7200)
    assert queue.bounds.default_memory_bytes_per_core == 1000 * MIB


@pytest.mark.parametrize("version", ["24.11.1", "26.05.0", "?"])
def test_one_made_for_another_slurm_is_refused(
    slurm: FakeCommands, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", recorded_pyslurm(version))
    with pytest.raises(ToolMissing, match=r"25\.11") as missing:
        WITH_PYSLURM.read(full=False)
    assert 'read_with = "commands"' in (missing.value.hint or "")


def test_what_it_gives_may_be_unreadable(
    slurm: FakeCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", recorded_pyslurm(sockets=None))
    with pytest.raises(SchedulerError):
        WITH_PYSLURM.read(full=False)


def test_the_site_file_chooses_it(tmp_path: Path) -> None:
    path = tmp_path / "berth.toml"
    path.write_text('schema = "berth.site/1"\n[slurm]\nread_with = "pyslurm"\n')
    assert load_site(path).scheduler_settings == SlurmSettings(read_with="pyslurm")
    assert open_scheduler(load_site(path)).settings == SlurmSettings(read_with="pyslurm")
    path.write_text('schema = "berth.site/1"\n')
    assert open_scheduler(load_site(path)).settings == SlurmSettings(read_with="commands")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[slurm]\nread_wiht = "pyslurm"\n', "slurm.read_wiht: is not a known key"),
        ('[slurm]\nread_with = "magic"\n', "slurm.read_with: input should be"),
        ("slurm = 3\n", "slurm: holds a int where"),
        ('[slurm]\n[site]\nscheduler = "flux"\n', "slurm: is not for this site"),
        ('[site]\nscheduler = "slum"\n', "there is no scheduler 'slum'; did you mean 'slurm'"),
        ("[slum]\n", "slum: is not a known key"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "berth.toml"
    path.write_text('schema = "berth.site/1"\n' + text)
    with pytest.raises(DocumentError) as refused:
        load_site(path)
    assert problem in refused.value.message
