"""berth site init: a first site file from a live Slurm, which Berth itself then accepts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cluster_facts import cluster, node
from fake_commands import FakeCommands
from fake_slurm import NODES, PARTITIONS

from berth.pilot.errors import BerthError
from berth.plugin.cli.site.init import init
from berth.plugin.site import load_site
from berth.plugin.slurm.scheduler import Slurm
from berth.policies.values import Mode


def run(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments, catch_exceptions=True)


def test_the_file_is_written_and_accepted(slurm: FakeCommands, tmp_path: Path) -> None:
    output = tmp_path / "etc" / "berth.toml"
    done = run("--output", str(output))
    assert done.exit_code == 0, done.output
    site = load_site(output)
    assert site.mode is Mode.SHADOW
    assert site.name == "lab"
    assert [c.name for c in site.candidates] == ["cpu", "gpu", "old"]
    cpu, gpu, _ = site.candidates
    assert (cpu.platform, cpu.cores_per_node, cpu.nodes) == ("rome-7742", 32, 2)
    assert (cpu.max_time_s, cpu.default_time_s) == (172800.0, 3600.0)
    assert (gpu.platform, gpu.gres, gpu.gpus_per_node) == ("h100-80gb", "gpu:h100", 4)
    assert gpu.allowed_accounts == {"physics", "chemistry"}
    assert gpu.allowed_qos == {"high"}
    assert (site.reference_platform, site.reference_queue) == ("rome-7742", "cpu")
    assert "PartitionName=auto Nodes=cpu[1-2]" in done.output


def test_a_partition_that_starts_no_jobs_is_marked_and_not_the_reference(
    slurm: FakeCommands, tmp_path: Path
) -> None:
    inactive = PARTITIONS.replace("State=UP", "State=INACTIVE", 1).replace(
        "State=DRAIN", "State=UP"
    )
    slurm.says("partition", inactive)
    both = NODES.replace("Partitions=gpu,old", "Partitions=gpu")
    slurm.says("node", both.replace("Partitions=cpu  CfgTRES", "Partitions=cpu,old  CfgTRES"))
    done = run("--output", str(tmp_path / "berth.toml"))
    assert done.exit_code == 0, done.output
    assert "CHECK cpu: the partition is INACTIVE: takes no jobs and starts none." in done.output
    assert load_site(tmp_path / "berth.toml").reference_queue == "old"


def test_nothing_is_overwritten_without_force(slurm: FakeCommands, tmp_path: Path) -> None:
    output = tmp_path / "berth.toml"
    output.write_text("mine")
    done = run("--output", str(output))
    assert isinstance(done.exception, BerthError)
    assert done.exception.exit_status == 2
    assert output.read_text() == "mine"
    assert run("--output", str(output), "--force").exit_code == 0
    assert load_site(output).candidates


def test_a_dry_run_writes_nothing(slurm: FakeCommands, tmp_path: Path) -> None:
    output = tmp_path / "berth.toml"
    done = run("--output", str(output), "--dry-run")
    assert done.exit_code == 0
    assert 'schema = "berth.site/1"' in done.output
    assert list(tmp_path.glob("berth*")) == []


def test_unknown_hardware_gets_a_stub_that_says_so(slurm: FakeCommands, tmp_path: Path) -> None:
    slurm.says("node", "NodeName=n CPUTot=12 RealMemory=64000 State=IDLE Partitions=cpu\n")
    output = tmp_path / "berth.toml"
    done = run("--output", str(output))
    assert "stub, to be benchmarked" in done.output
    site = load_site(output)
    (stub,) = site.platforms.values()
    assert (stub.name, stub.cores) == ("cpu-12c-62g", 12)
    assert "STUB" in stub.description
    assert (tmp_path / "platforms" / "cpu-12c-62g.json").exists()


def test_a_candidate_offers_what_the_scheduler_keeps_for_jobs(
    slurm: FakeCommands, tmp_path: Path
) -> None:
    slurm.says("node", "NodeName=n CPUTot=12 CPUEfctv=10 RealMemory=64000 MemSpecLimit=9000 "
               "State=IDLE Partitions=cpu\n")  # fmt: skip
    output = tmp_path / "berth.toml"
    assert run("--output", str(output)).exit_code == 0
    site = load_site(output)
    (candidate,), (stub,) = site.candidates, site.platforms.values()
    assert (candidate.cores_per_node, candidate.memory_bytes_per_node) == (10, 55000 * 2**20)
    assert (stub.name, stub.cores, stub.memory_bytes) == ("cpu-12c-62g", 12, 64000 * 2**20)


def test_an_existing_stub_is_not_overwritten_either(slurm: FakeCommands, tmp_path: Path) -> None:
    slurm.says("node", "NodeName=n CPUTot=12 RealMemory=64000 State=IDLE Partitions=cpu\n")
    measured = tmp_path / "platforms" / "cpu-12c-62g.json"
    measured.parent.mkdir()
    measured.write_text("measured")
    assert run("--output", str(tmp_path / "berth.toml")).exit_code != 0
    assert measured.read_text() == "measured"
    assert not (tmp_path / "berth.toml").exists()


@pytest.mark.parametrize(
    ("what", "message"),
    [("partition", "Unable to contact slurm controller (connect failure)"), ("node", "")],
)
def test_failures_are_sentences(
    slurm: FakeCommands, tmp_path: Path, what: str, message: str
) -> None:
    slurm.fails(what, message)
    done = run("--output", str(tmp_path / "berth.toml"))
    assert isinstance(done.exception, BerthError)
    assert list(tmp_path.glob("berth*")) == []


def test_a_place_that_cannot_be_written_is_a_sentence(slurm: FakeCommands, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("--output", str(tmp_path / "file" / "berth.toml"))
    assert isinstance(done.exception, BerthError)
    assert "cannot be written" in done.exception.message


def test_a_cluster_of_the_auto_partition_alone_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = cluster(node(queues=("auto",)), queues=("auto",))
    monkeypatch.setattr(Slurm, "read", lambda _: alone)
    done = run("--scheduler", "slurm", "--output", str(tmp_path / "berth.toml"))
    assert isinstance(done.exception, BerthError)
    assert "no partition with nodes in it besides auto" in done.exception.message
    assert "the places are other partitions" in (done.exception.hint or "")


def test_partitions_that_are_not_for_users_are_no_candidates(
    slurm: FakeCommands, tmp_path: Path
) -> None:
    hidden = PARTITIONS.replace("PartitionName=old", "PartitionName=old Hidden=YES").replace(
        "PartitionName=gpu", "PartitionName=gpu RootOnly=YES"
    )
    slurm.says("partition", hidden)
    output = tmp_path / "berth.toml"
    done = run("--output", str(output))
    assert [c.name for c in load_site(output).candidates] == ["cpu"]
    sentence = "No candidates, as they are not for users: gpu (RootOnly=YES), old (Hidden=YES)."
    assert f"# {sentence}\n" in output.read_text()
    assert sentence in done.output
