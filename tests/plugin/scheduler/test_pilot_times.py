"""``berth pilot submit`` refuses more time than a partition gives, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fake_commands import FakeCommands
from fake_slurm import PARTITIONS

from berth.pilot.errors import UsageError
from berth.plugin.cli.pilot.submit import submit
from berth.plugin.slurm.pilot_plan import check_time
from berth.plugin.slurm.records import records

SITE = """\
schema = "berth.site/1"
[site]
reference_platform = "rome-7742"
reference_partition = "cpu"
auto_partition = "auto"
[daemon]
store = "{folder}/store.db"
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "cpu"
"""


AUTO = "PartitionName=auto Default=NO MaxTime=1-00:00:00 Nodes=cpu1 State=UP TotalNodes=1\n"


@pytest.fixture
def pilot_site(slurm: FakeCommands, tmp_path: Path) -> Path:
    slurm.says("sbatch", "4711\n")
    slurm.says("partition", PARTITIONS + AUTO)
    path = tmp_path / "berth.toml"
    path.write_text(SITE.format(folder=tmp_path))
    return path


def submitted(site: Path, *words: str) -> Result:
    options = ["--site", str(site), "--results", str(site.parent / "results")]
    return CliRunner().invoke(submit, [*options, *words, "--", "/bin/true"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("-t", "3d"),
            "--time-limit 3d is more time than a job may have in partition auto (MaxTime=",
        ),
        (("-t", "1441"), "--time-limit 1441 is more"),
        (("-t", "49h", "-p", "cpu"), "in partition cpu (MaxTime=2-00:00:00)"),
        (("-t", "49h", "-p", "cpu,auto"), "cpu (MaxTime=2-00:00:00), auto (MaxTime=1-00:00:00)"),
        (("--pilot-time", "49h"), "--pilot-time 49h is more"),
    ],
)
def test_more_time_than_the_partition_gives_is_refused(
    pilot_site: Path, slurm: FakeCommands, words: tuple[str, ...], said: str
) -> None:
    done = submitted(pilot_site, "--then-place", *words)
    assert isinstance(done.exception, UsageError)
    assert said in done.exception.message
    assert not any(call.startswith("sbatch") for call in slurm.calls)
    assert not (pilot_site.parent / "results").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--then-place", "-t", "24h"),
        ("--then-place", "-t", "48h", "-p", "cpu"),
        ("--then-place", "-t", "3d", "-p", "gpu"),
        ("--then-place", "-t", "3d", "-p", "cpu,gpu"),
        ("--then-place", "-t", "3d", "--qos", "long"),
        ("-t", "3d"),
    ],
)
def test_what_some_partition_or_a_qos_may_give_is_submitted(
    pilot_site: Path, words: tuple[str, ...]
) -> None:
    done = submitted(pilot_site, *words)
    assert done.exit_code == 0, done.exception
    assert "Pilot job 4711" in done.output


def test_without_a_partition_the_default_one_counts() -> None:
    partitions = tuple(records(PARTITIONS, "PartitionName"))
    check_time("-t 2d", 2 * 86400.0, None, partitions, hint="")
    with pytest.raises(UsageError, match=r"partition cpu \(MaxTime"):
        check_time("-t 3d", 3 * 86400.0, None, partitions, hint="")
    check_time("-t 3d", 3 * 86400.0, "unknown", partitions, hint="")
