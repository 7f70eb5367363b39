"""``berth pilot submit`` reads times as sbatch does; what no pilot job can do is never sent."""

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
    program = () if "--" in words else ("--", "/bin/true")
    return CliRunner().invoke(submit, [*options, *words, *program])


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
        (("-t", "0"), "--time-limit '0' is no time at all"),
        (("-N1,2",), "--then-place needs one number of nodes"),
    ],
)
def test_what_no_pilot_job_can_do_is_refused_before_slurm_takes_one(
    pilot_site: Path, slurm: FakeCommands, words: tuple[str, ...], said: str
) -> None:
    done = submitted(pilot_site, "--then-place", *words)
    assert isinstance(done.exception, UsageError)
    assert said in done.exception.message
    assert not any(call.startswith("sbatch") for call in slurm.calls)
    assert not (pilot_site.parent / "results").exists()


@pytest.mark.parametrize(("words", "option"), [(("-n", "4"), "-n"), (("-N2",), "-N2")])
def test_a_launch_on_several_numbers_of_nodes_says_none_itself(
    pilot_site: Path, words: tuple[str, ...], option: str
) -> None:
    done = submitted(pilot_site, "-N1,2", "--", "srun", *words, "true")
    assert isinstance(done.exception, UsageError)
    assert f"{option} of srun is the same on every number" in done.exception.message


def test_a_site_without_reference_partition_says_what_to_set(pilot_site: Path) -> None:
    text = pilot_site.read_text()
    pilot_site.write_text(text.replace('reference_partition = "cpu"\n', ""))
    problem = submitted(pilot_site).exception
    assert isinstance(problem, UsageError)
    assert "site.reference_partition" in str(problem.hint)


@pytest.mark.parametrize(
    ("limit", "minutes", "seconds"),
    [("90", 90, 5400), ("90:30", 91, 5430), ("1:30:00", 90, 5400), ("12h", 720, 43_200)],
)
def test_a_dry_run_shows_the_scripts_and_submits_nothing(
    pilot_site: Path, slurm: FakeCommands, limit: str, minutes: int, seconds: int
) -> None:
    done = submitted(pilot_site, "--dry-run", "--then-place", "-t", limit)
    for text in (f"--time={minutes} ", f"--time-limit={seconds}s",
                 "--dependency=afterany:PILOT", "pilot deliver"):  # fmt: skip
        assert text in done.stdout
    assert not any(call.startswith("sbatch") for call in slurm.calls)


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
