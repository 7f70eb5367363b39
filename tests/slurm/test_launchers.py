"""Where a launcher ends and its ranks' program begins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import UsageError
from berth.plugin.slurm.launchers import Launch, split
from berth.plugin.slurm.pilot_job import Shape, job_script, pilot_script, with_srun

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
    assert split(command.split()) == Launch(words, tuple(program.split()))


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
    assert with_srun(Launch((), ("true",)), Shape(tasks=2)).launcher == ("srun",)
    assert with_srun(Launch((), ("true",)), Shape(tasks=1)).launcher == ()
    assert with_srun(Launch(("mpirun",), ("true",)), Shape(tasks=2)).launcher == ("mpirun",)


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


def made(berth: str, launch: Launch) -> str:
    return pilot_script(
        launch, berth=berth, profile=Path("p q.json"), run_options=["--name=n"],
        deliver_options=["--site=s"],
    )  # fmt: skip


def test_the_pilot_measures_then_delivers_and_keeps_the_programs_status(
    tmp_path: Path, fake_berth: str
) -> None:
    done = run_script(made(fake_berth, Launch((), ("sh", "-c", "echo 'a  b'; exit 3"))), tmp_path)
    assert (done.returncode, done.stdout) == (3, "a  b\n")
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert first.startswith("<pilot><run><--output><p q.json><--name=n><-->")
    assert second == "<pilot><deliver><p q.json><--site=s>"


def test_only_rank_zero_of_a_launch_is_measured_once_for_time_and_once_for_counters(
    tmp_path: Path, fake_berth: str
) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(
        '#!/bin/sh\nfor r in 0 1 2; do OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=$r "$@"; done\n'
    )
    launcher.chmod(0o755)
    program = ("sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK: $0", "it's one")
    done = run_script(made(fake_berth, Launch(("mpirun",), program)), tmp_path, SLURM_PROCID="0")
    assert done.stdout == "".join(f"rank {r}: it's one\n" for r in range(3))
    run, count, deliver = (tmp_path / "calls").read_text().splitlines()
    assert "<--repeats><1>" in run
    assert "<--ranks><3><--><sh>" in run
    assert count.startswith("<pilot><count><--into><p q.json><--><sh>")
    assert "<deliver>" in deliver


def test_the_real_job_takes_its_shape_from_slurm_not_from_its_old_environment(
    tmp_path: Path,
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\necho 'JobId=7 JobName=x'\n"
        "echo '   NumNodes=1 NumCPUs=8 NumTasks=2 CPUs/Task=4 ReqB:S:C:T=0:0:*:*'\n"
    )
    scontrol.chmod(0o755)
    script = job_script(Launch((), ("sh", "-c", "echo $SLURM_NTASKS $SLURM_CPUS_PER_TASK")))
    old = {"SLURM_NTASKS": "64", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "7"}
    assert run_script(script, tmp_path, **old).stdout == "2 4\n"
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    assert run_script(script, tmp_path, **old).stdout == "64 1\n"
