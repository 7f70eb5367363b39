"""What a user and a wrapper see of a submission, with the client filter and without it."""

from __future__ import annotations

import re

import pytest
from login_node import login_node
from on_terminal import on_terminal
from real_daemon import RealDaemon
from slurm_cluster import OTHER_ROOT, USER, Cluster

MOVED = "-p auto --comment=berth:stream -t 5"
LINE = re.compile(r"^berth: job \d+: gpu \(.*\) is predicted fastest.*--comment=berth:off\)$")
pytestmark = pytest.mark.skipif(OTHER_ROOT is not None, reason="commands of this root only")


def shell(slurm: Cluster, line: str, environment: dict[str, str]) -> str:
    return slurm.run("sh", "-c", line, user=USER, env=environment).stdout.strip()


WAYS_OF_READING_IDS = {
    "fourth word of both streams": "sbatch {} --wrap=true 2>&1 | awk '{{print $4}}'",
    "last word of both streams": "sbatch {} --wrap=true 2>&1 | awk '{{print $NF}}'",
    "--parsable": "sbatch --parsable {} --wrap=true 2>&1",
    "--parsable, cut": "sbatch --parsable {} --wrap=true 2>&1 | cut -d';' -f1",
    "a pattern at the start": (
        "sbatch {} --wrap=true 2>&1 | sed -En '1s/^Submitted batch job ([0-9]+)$/\\1/p'"
    ),
    "digits of all that was written": "sbatch {} --wrap=true 2>&1 | tr -cd 0-9",
}
"""As R batchtools, EasyBuild, scripts of users and others do."""


@pytest.mark.parametrize("way", WAYS_OF_READING_IDS)
def test_with_the_client_filter_each_wrapper_reads_the_id_of_a_moved_job(
    slurm: Cluster, daemon: RealDaemon, way: str
) -> None:
    read = shell(slurm, WAYS_OF_READING_IDS[way].format(MOVED), login_node(slurm))
    job = slurm.job(read)
    assert job["JobId"] == read
    assert job["Partition"] == "gpu"
    assert job["Comment"] == "berth:stream"
    assert "action=edit" in job["AdminComment"]
    assert "said=" not in job["AdminComment"]


def test_without_the_client_filter_only_a_changed_job_has_a_line_before_its_id(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    both = f"sbatch {MOVED} --wrap=true 2>&1"
    first, second = shell(slurm, both, {}).splitlines()
    assert first.startswith("sbatch: berth: note: gpu (")
    assert second.startswith("Submitted batch job ")
    quiet = shell(slurm, both, {"BERTH_QUIET": "1"})
    assert re.fullmatch(r"Submitted batch job \d+", quiet)
    assert slurm.job(quiet.split()[3])["Partition"] == "gpu"
    for left in (
        "-p auto --comment=berth:unknown",
        "-p auto",
        "-p cpu --comment=berth:stream",
        f"{MOVED} --deadline=now+1day",
        f"{MOVED} --comment=berth:off",
    ):
        option = "--gres=none" if "deadline" in left else ""
        said = shell(slurm, f"printf '#!/bin/sh\n#SBATCH {option}\n:' | sbatch {left} 2>&1", {})
        assert re.fullmatch(r"Submitted batch job \d+", said), (left, said)


def test_a_refusal_of_slurms_own_is_not_berths(slurm: Cluster, daemon: RealDaemon) -> None:
    refused = f"sbatch {MOVED} --array=0-2000%1 --wrap=true 2>&1; :"
    lines = shell(slurm, refused, {}).splitlines()
    assert lines[0].startswith("sbatch: error: berth: note: "), "sbatch's own word"
    assert lines[-1].startswith("sbatch: error: Batch job submission failed: ")
    lines = shell(slurm, refused, login_node(slurm)).splitlines()
    assert [line for line in lines if "berth" in line] == []
    shown = on_terminal(slurm, refused, login_node(slurm)).splitlines()
    assert [line for line in shown if "berth" in line] == []


def test_on_a_terminal_the_line_names_the_job_and_comes_with_sbatchs_own(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    shown = on_terminal(slurm, f"sbatch {MOVED} --wrap=true; echo next", login_node(slurm))
    line, submitted, following = shown.splitlines()
    read = submitted.removeprefix("Submitted batch job ")
    assert LINE.match(line)
    assert line.startswith(f"berth: job {read}: ")
    assert following == "next"
    job = slurm.job(read)
    assert job["Comment"] == "berth:stream"
    assert " was=partition:auto" in job["AdminComment"]


@pytest.mark.parametrize(
    ("line", "environment"),
    [
        (f"sbatch {MOVED} --wrap=true", {"BERTH_QUIET": "1"}),
        (f"sbatch --quiet {MOVED} --wrap=true", {}),
        (f"sbatch {MOVED} --comment=berth:off --wrap=true", {}),
        ("sbatch -p auto --wrap=true", {}),
        (f'echo "$(sbatch {MOVED} --wrap=true 2>&1)"', {}),
    ],
)
def test_nothing_is_said_where_nothing_changed_or_nobody_wants_or_reads_it(
    slurm: Cluster, daemon: RealDaemon, line: str, environment: dict[str, str]
) -> None:
    shown = on_terminal(slurm, line, {**login_node(slurm), **environment})
    assert "predicted" not in shown
    assert "berth:" not in shown


def test_a_captured_id_is_the_id_alone(slurm: Cluster, daemon: RealDaemon) -> None:
    line = f'id=$(sbatch --parsable {MOVED} --wrap=true); echo "[$id]"'
    said, captured = on_terminal(slurm, line, login_node(slurm)).splitlines()
    assert LINE.match(said)
    assert re.fullmatch(r"\[\d+\]", captured)


NO = {"a file": {}, "BERTH_MODE": {"BERTH_MODE": "off"}}


@pytest.mark.parametrize("how", NO)
@pytest.mark.parametrize("command", ["sbatch --export=NONE", "sbatch", "srun -n1", "salloc -n1"])
def test_a_user_can_say_no_for_all_jobs(
    slurm: Cluster, daemon: RealDaemon, how: str, command: str
) -> None:
    home = slurm.work / how.replace(" ", "-")
    (home / ".config/berth").mkdir(parents=True, exist_ok=True)
    if not NO[how]:
        (home / ".config/berth/off").touch()
    script = slurm.work / "true.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    environment = {**login_node(slurm), "HOME": str(home), **NO[how]}
    shown = on_terminal(slurm, f"{command} -J no-{home.name} {MOVED} {script}", environment)
    assert "berth:" not in shown
    found = slurm.run("squeue", "-h", "-a", "-t", "all", "-n", f"no-{home.name}", "-o", "%P|%k")
    assert set(found.stdout.splitlines()) == {"auto|berth:stream"}


def test_srun_salloc_and_a_waiting_sbatch_say_it_too(slurm: Cluster, daemon: RealDaemon) -> None:
    environment = login_node(slurm)
    for command in ("srun {} -n1 echo done", "salloc {} -n1 echo done"):
        shown = on_terminal(slurm, command.format(MOVED), environment).splitlines()
        assert sum(bool(LINE.match(line)) for line in shown) == 1, shown
        assert "done" in shown
    job = f"sbatch --wait {MOVED} --wrap='sleep 0.5'"
    shown = on_terminal(slurm, job, environment).splitlines()
    assert LINE.match(shown[0])
    assert shown[1].startswith("Submitted batch job")


def test_a_slow_or_absent_scontrol_delays_nobody(slurm: Cluster, daemon: RealDaemon) -> None:
    folder = slurm.work / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "scontrol").write_text("#!/bin/sh\nexec sleep 1000\n")
    (folder / "scontrol").chmod(0o755)
    path = f"PATH={folder}:$PATH"
    shown = on_terminal(slurm, f"{path} sbatch {MOVED} --wrap=true", login_node(slurm))
    assert shown.startswith("Submitted batch job ")
    (folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    shown = on_terminal(slurm, f"{path} sbatch {MOVED} --wrap=true", login_node(slurm))
    assert re.fullmatch(r"Submitted batch job \d+\n", shown)


def test_the_word_leaves_no_trace_where_the_kill_switch_is_on(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    switch = slurm.kill_switch
    switch.touch()
    try:
        read = shell(slurm, f"sbatch --parsable {MOVED} --wrap=true", login_node(slurm))
        bare = shell(slurm, "sbatch --parsable -p auto --wrap=true", login_node(slurm))
    finally:
        switch.unlink()
    assert slurm.job(read)["Comment"] == "berth:stream"
    assert slurm.job(read)["Partition"] == "auto"
    assert "berth-client" not in slurm.job(bare).get("Comment", "")


def test_the_longest_comment_is_taken_as_without_the_client_filter(
    slurm: Cluster, daemon: RealDaemon
) -> None:
    for length in (985, 1000, 1024):
        text = ("berth:stream " + "x" * 2000)[:length]
        read = shell(
            slurm, f"sbatch --parsable -p auto --comment='{text}' --wrap=true", login_node(slurm)
        )
        assert slurm.job(read.splitlines()[-1])["Comment"] == text
