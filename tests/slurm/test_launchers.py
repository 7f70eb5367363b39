"""Where a launcher ends and its ranks' program begins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import UsageError
from berth.pilot.ranks import records_in
from berth.plugin.slurm.pilot_job import (
    RANK_SCRIPT,
    PilotLaunch,
    PilotShape,
    job_script,
    pilot_script,
    split,
    with_srun,
)

SPLITS = {
    "true x": ((), "true x"),
    "srun true": ("srun", "true"),
    "srun -n 8 true -n 9": ("srun -n 8", "true -n 9"),
    "srun -n8 --mpi=pmix -l true": ("srun -n8 --mpi=pmix -l", "true"),
    "srun --ntasks 8 -q high true": ("srun --ntasks 8 -q high", "true"),
    "mpirun -np 4 -q true": ("mpirun -np 4 -q", "true"),
    "mpirun --mca btl tcp,self -x PATH true": ("mpirun --mca btl tcp,self -x PATH", "true"),
    "mpiexec -n 2 --frobnicate 3 -- true -- x": ("mpiexec -n 2 --frobnicate 3", "true -- x"),
    "/usr/bin/mpirun -np 2 true": ("/usr/bin/mpirun -np 2", "true"),
}


@pytest.mark.parametrize("command", SPLITS)
def test_a_command_is_cut_where_the_program_begins(command: str) -> None:
    launcher, program = SPLITS[command]
    words = tuple(launcher.split()) if launcher else ()
    assert split(command.split()) == PilotLaunch(words, tuple(program.split()))


@pytest.mark.parametrize(
    "command", ["srun", "srun -n 4", "mpirun --frobnicate 3 true", "srun -n 2 ./nowhere"]
)
def test_what_cannot_be_told_is_said_with_the_way_out(command: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(command.split())
    assert caught.value.hint


@given(st.lists(st.text(min_size=1), min_size=1))
def test_any_words_are_cut_or_refused(words: list[str]) -> None:
    try:
        found = split(("srun", *words))
    except UsageError:
        return
    before, after = found.launcher, found.program
    assert ("srun", *words) in ((*before, *after), (*before, "--", *after))


def test_several_tasks_without_a_launcher_are_started_by_srun() -> None:
    assert with_srun(PilotLaunch((), ("true",)), PilotShape(tasks=2)).launcher == ("srun",)
    assert with_srun(PilotLaunch((), ("true",)), PilotShape(tasks=1)).launcher == ()
    assert with_srun(PilotLaunch(("mpirun",), ("true",)), PilotShape(tasks=2)).launcher == (
        "mpirun",
    )


def run_script(text: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.sh"
    script.write_text(text)
    return subprocess.run(
        ["sh", str(script)],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def fake_berth(tmp_path: Path) -> str:
    """Stands for ``berth``: writes down how it was called, runs what follows ``--``."""
    fake = tmp_path / "berth"
    fake.write_text(
        f'#!/bin/sh\nfor w; do printf "<%s>" "$w"; done >> {tmp_path}/calls\n'
        f'echo >> {tmp_path}/calls\nwhile [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done\n'
        '[ $# -gt 0 ] || exit 0\nshift\nexec "$@"\n'
    )
    fake.chmod(0o755)
    return str(fake)


def made(berth: str, launch: PilotLaunch) -> str:
    return pilot_script(
        launch, berth=berth, profile=Path("p q.json"), run_options=["--name=n"],
        deliver_options=["--site=s"],
    )  # fmt: skip


def test_the_pilot_measures_then_delivers_and_keeps_the_programs_status(
    tmp_path: Path, fake_berth: str
) -> None:
    done = run_script(
        made(fake_berth, PilotLaunch((), ("sh", "-c", "echo 'a  b'; exit 3"))), tmp_path
    )
    assert (done.returncode, done.stdout) == (3, "a  b\n")
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert first.startswith("<pilot><run><--output><p q.json><--name=n><-->")
    assert second == "<pilot><deliver><p q.json><--site=s>"


RANKS = """#!/bin/sh
for r in 0 1 2; do OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=$r "$@"; done
"""


def launched(tmp_path: Path, fake_berth: str) -> tuple[str, list[str]]:
    """What the ranks printed, and how ``berth`` was called."""
    launcher = tmp_path / "mpirun"
    launcher.write_text(RANKS)
    launcher.chmod(0o755)
    program = ("sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK: $0", "it's one")
    script = pilot_script(
        PilotLaunch(("mpirun",), program), berth=fake_berth, profile=tmp_path / "p q.json",
        run_options=["--name=n"], deliver_options=["--site=s"],
    )  # fmt: skip
    done = run_script(script, tmp_path, SLURM_PROCID="0")
    return done.stdout, (tmp_path / "calls").read_text().splitlines()


def test_every_rank_is_measured_in_one_launch(tmp_path: Path, fake_berth: str) -> None:
    printed, calls = launched(tmp_path, fake_berth)
    assert printed == "".join(f"rank {r}: it's one\n" for r in range(3))
    run, ranks, deliver = calls
    assert "<--repeats><1>" in run
    assert "<--ranks><3><--><sh>" in run
    assert ranks.startswith("<pilot><ranks>")
    assert "<deliver>" in deliver
    assert not (tmp_path / "p q.json.ranks").exists()


def test_ranks_leave_their_time_and_memory_and_keep_their_status(tmp_path: Path) -> None:
    file = tmp_path / "rank-3.json"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(RANK_SCRIPT), str(file), "sh", "-c", "echo here; exit 7"],
        env={"PATH": "/usr/bin:/bin", "PMI_RANK": "3", "SLURMD_NODENAME": "n9"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (7, "here\n")
    (record,) = records_in(tmp_path)
    assert (record.rank, record.node, record.exit_status) == (3, "n9", 7)
    assert record.seconds > 0
    assert record.peak_memory_bytes > 100_000


def test_a_rank_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", str(RANK_SCRIPT), str(tmp_path / "no" / "x"), "./nowhere"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "could not be started" in done.stderr
    assert "cannot be written" in done.stderr


def test_without_a_second_launch_nothing_is_counted(tmp_path: Path, fake_berth: str) -> None:
    _, calls = launched(tmp_path, fake_berth)
    assert ["run" in c or "ranks" in c or "deliver" in c for c in calls] == [True, True, True]


def test_the_real_job_takes_its_shape_from_slurm_not_from_its_old_environment(
    tmp_path: Path,
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\necho 'JobId=7 JobName=x'\n"
        "echo '   NumNodes=1 NumCPUs=8 NumTasks=2 CPUs/Task=4 ReqB:S:C:T=0:0:*:*'\n"
    )
    scontrol.chmod(0o755)
    script = job_script(PilotLaunch((), ("sh", "-c", "echo $SLURM_NTASKS $SLURM_CPUS_PER_TASK")))
    old = {"SLURM_NTASKS": "64", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "7"}
    assert run_script(script, tmp_path, **old).stdout == "2 4\n"
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    assert run_script(script, tmp_path, **old).stdout == "64 1\n"
