"""What a job used: read at its end, whatever the node is like, and never a failing Epilog."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import FakeFleet, build
from job_trees import STATS, plant, plant_faulty

from berth.pilot.errors import DocumentError
from berth.pilot.usage import at_job_end
from berth.pilot.usage.line import parse_line, usage_of

RUN = "import sys; sys.path.append(sys.argv[1]); import at_job_end; at_job_end.main()"
FOLDER = Path(at_job_end.__file__).resolve().parent
LONG_MS = "20000"
"""Deadline of tests that are not about it: this machine may be busy."""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


def environment(root: Path, spool: Path, **more: str) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_CLUSTER_NAME": "lab",
        "SLURMD_NODENAME": "n1",
        "BERTH_USAGE_CGROUPS": str(root),
        "BERTH_USAGE_SPOOL": str(spool),
        "BERTH_USAGE_DEADLINE_MS": LONG_MS,
        **more,
    }


def run(environ: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run it as the Epilog's script does."""
    words = [sys.executable, "-I", "-S", "-c", RUN, str(FOLDER)]
    return subprocess.run(words, env=dict(environ), capture_output=True)


def left(spool: Path) -> dict[str, Any]:
    (file,) = spool.iterdir()
    text = file.read_text()
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    parse_line(text, "the line")
    return dict(json.loads(text))


def test_a_jobs_group_becomes_one_line(tmp_path: Path, spool: Path) -> None:
    plant(tmp_path / "cg")
    done = run(environment(tmp_path / "cg", spool))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    line = left(spool)
    assert {key: line[key] for key in ("cluster", "job", "node", "lacks")} == {
        "cluster": "lab", "job": "7", "node": "n1", "lacks": [],
    }  # fmt: skip
    usage = usage_of(parse_line(json.dumps(line), "x"), "site", "7", "", 5.0)
    assert (usage.job_id, usage.peak_bytes, usage.cpu_time_s) == ("7", 123456789, 61.0)
    assert (usage.disk_read_bytes, usage.disk_written_bytes, usage.oom_kills) == (1024, 200, 1)
    stalled = (usage.cpu_stalled_s, usage.memory_stalled_s, usage.io_stalled_s)
    assert stalled == (2.0, 3.0, 4.0)


def test_a_peak_that_is_mostly_file_cache_is_not_what_the_job_needs(
    tmp_path: Path, spool: Path
) -> None:
    plant(tmp_path / "cg", stats={**STATS, "memory.stat": "anon 1\nfile 123000000\nshmem 0\n"})
    run(environment(tmp_path / "cg", spool))
    usage = usage_of(parse_line(json.dumps(left(spool)), "x"), "site", "7", "", 5.0)
    assert usage.peak_bytes is None
    assert usage.lacks == "cgroup: the peak is mostly file cache"


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ("0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n",) * 2,
        ("0::/system.slice/n1_slurmstepd.scope/job_7/step_extern\n",) * 2,
        ("0::/user.slice/berth.service\n", "0::/system.slice/n1_slurmstepd.scope/job_7/x\n"),
        ("1:name=systemd:/\n", "0::/system.slice/slurmstepd.scope/job_7/x\n"),
    ],
)
def test_the_group_is_that_of_the_process_or_where_slurm_makes_it(
    tmp_path: Path, own: str, place: str
) -> None:
    (tmp_path / "own").write_text(own)
    group = tmp_path / place[4 : place.index("job_7") + 5]
    group.mkdir(parents=True)
    environ = {"SLURMD_NODENAME": "n1", "BERTH_USAGE_OWN_GROUP": str(tmp_path / "own")}
    assert at_job_end.job_group(str(tmp_path), "7", environ) == str(group)
    assert at_job_end.job_group(str(tmp_path), "8", environ) is None


def test_in_fluxs_shell_the_group_is_the_shells_own(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/user.slice/imp-shell-0-ABC.service\n")
    (tmp_path / "user.slice" / "imp-shell-0-ABC.service").mkdir(parents=True)
    environ = {"FLUX_JOB_ID": "ABC", "BERTH_USAGE_OWN_GROUP": str(tmp_path / "own")}
    group = at_job_end.job_group(str(tmp_path), "ABC", environ)
    assert group == f"{tmp_path}/user.slice/imp-shell-0-ABC.service"


def test_cgroup_version_1_and_a_group_that_is_gone_are_said(tmp_path: Path) -> None:
    environ = environment(tmp_path, tmp_path)
    measured = at_job_end.measured(environ)
    assert measured is not None
    assert measured["lacks"] == ["cgroup: none mounted"]
    (tmp_path / "memory").mkdir()
    assert (at_job_end.measured(environ) or {})["lacks"] == ["cgroup: version 1 is not supported"]
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    assert (at_job_end.measured(environ) or {})["lacks"] == ["cgroup: the job's group is gone"]


def test_without_a_job_and_in_all_tasks_but_the_first_nothing_is_written(
    tmp_path: Path, spool: Path
) -> None:
    plant(tmp_path / "cg")
    environ = environment(tmp_path / "cg", spool)
    for change in ({"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "7 ../x"}, {"SLURM_LOCALID": "3"}):
        assert run({**environ, **change}).returncode == 0
    assert list(spool.iterdir()) == []


def test_an_array_task_is_named_as_accounting_names_it(tmp_path: Path, spool: Path) -> None:
    plant(tmp_path / "cg")
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2", "SLURM_STEP_ID": "4294967291"}
    run(environment(tmp_path / "cg", spool, **array))
    line = left(spool)
    assert (line["job"], line["array_task"], line["step"]) == ("7", "5_2", "batch")


@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(1_000), marks=pytest.mark.slow)])
def test_faulty_trees_give_a_line_or_none_and_no_exception(
    tmp_path: Path, spool: Path, seeds: range
) -> None:
    for seed in seeds:
        root = tmp_path / str(seed)
        plant_faulty(root, seed)
        fields = at_job_end.measured(environment(root, spool))
        assert fields is not None
        at_job_end.write(fields, str(spool))
        left(spool)
        shutil.rmtree(root)


@pytest.mark.slow
def test_the_process_exits_with_0_on_a_hundred_faulty_nodes(tmp_path: Path) -> None:
    for seed in range(100):
        root, spool = tmp_path / f"{seed}", tmp_path / f"{seed}s"
        plant_faulty(root, seed)
        if seed % 5:
            spool.mkdir()
        environ = environment(root, spool)
        if seed % 7 == 0:
            environ["SLURM_JOB_GPUS"] = "0,x,9"
        if seed % 11 == 0:
            environ["BERTH_USAGE_DEADLINE_MS"] = "1"
        done = run(environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), seed
        shutil.rmtree(root)


def test_a_tree_that_vanishes_meanwhile_is_no_failure(tmp_path: Path, spool: Path) -> None:
    group = plant(tmp_path / "cg")
    processes = [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", RUN, str(FOLDER)],
            env=environment(tmp_path / "cg", spool, SLURMD_NODENAME=f"n{number}"),
        )
        for number in range(6)
    ]
    shutil.rmtree(group)
    assert [process.wait() for process in processes] == [0] * 6


def test_a_killed_process_leaves_no_file_that_is_collected(tmp_path: Path, spool: Path) -> None:
    plant(tmp_path / "cg")
    for delay_s in (0.0, 0.01, 0.015, 0.02, 0.03, 0.05):
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", RUN, str(FOLDER)],
            env=environment(tmp_path / "cg", spool), start_new_session=True,
        )  # fmt: skip
        time.sleep(delay_s)
        os.killpg(process.pid, 9)
        process.wait()
        for file in spool.iterdir():
            assert file.name.startswith(".") or parse_line(file.read_text(), file.name)


@pytest.mark.parametrize("spool_kind", ["absent", "a file", "full"])
def test_a_spool_that_cannot_be_written_is_no_failure(tmp_path: Path, spool_kind: str) -> None:
    plant(tmp_path / "cg")
    spool = Path("/dev/full") if spool_kind == "full" else tmp_path / "spool"
    if spool_kind == "a file":
        spool.write_text("")
    assert run(environment(tmp_path / "cg", spool)).returncode == 0


def test_a_line_that_is_not_one_is_refused_by_name() -> None:
    for text in ("", "[]", '{"schema": "berth.usage/1"}', '{"schema": "berth.usage/9"}'):
        with pytest.raises(DocumentError):
            parse_line(text, "lab-7-n1.usage")


# GPUs


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return build(tmp_path_factory.mktemp("nvml"))


def with_gpus(
    library: Path, folder: Path, rows: str | None, *, mig: bool = False
) -> dict[str, str]:
    """The environment of a node with two GPUs whose accounting has these rows; None: it is off."""
    fleet = FakeFleet(library, folder / "fleet")
    fleet.reset("a100-40", "a100-40", mig=mig)
    accounting = {}
    if rows is not None:
        (folder / "accounting").write_text(rows)
        accounting["FAKE_NVML_ACCOUNTING"] = str(folder / "accounting")
    return {**fleet.environment, **accounting, "SLURM_JOB_GPUS": "1"}


def test_gpu_processes_of_the_job_are_summed_up(
    nvml_library: Path, tmp_path: Path, spool: Path
) -> None:
    start = 1_700_000_000_000_000
    rows = f"""\
1 10 80 40 3000 60000 {start + 2_000_000}
1 11 20 10 1000 20000 {start + 3_000_000}
1 12 50 50 3500 1000 {start + 90_000_000}
1 9 99 99 99999 1000 {start - 60_000_000}
0 13 99 99 99999 1000 {start + 2_000_000}
"""
    plant(tmp_path / "cg")
    gpus = with_gpus(nvml_library, tmp_path, rows)
    environ = {**environment(tmp_path / "cg", spool), **gpus}
    run({**environ, "SLURM_JOB_START_TIME": str(start // 10**6)})
    line = left(spool)
    assert line["lacks"] == []
    (gpu,) = line["gpus"]
    assert (gpu["gpu"], gpu["processes"], gpu["time_ms"]) == (1, 3, 81_000)
    assert gpu["memory_peak_bytes"] == 4000, "two ran at once; the third was alone"
    assert gpu["gpu_utilisation"] == pytest.approx((80 * 60 + 20 * 20 + 50) / 8100, abs=1e-4)
    assert gpu["memory_utilisation"] == pytest.approx((40 * 60 + 10 * 20 + 50) / 8100, abs=1e-4)


@pytest.mark.skipif(not Path("/bin/dash").exists(), reason="NO /bin/dash TO NAME slurmstepd")
def test_the_jobs_start_is_by_the_nodes_own_clock(tmp_path: Path) -> None:
    """The controller's clock may be a day off: the slurmstepd above tells when the job began."""
    stepd = tmp_path / "slurmstepd"
    shutil.copy("/bin/dash", stepd)
    ask = "import at_job_end, os; print(at_job_end.started_at(os.environ))"
    words = f"sleep 0.05; {sys.executable} -c '{ask}' & wait"
    environ = {**os.environ, "PYTHONPATH": str(FOLDER), "SLURM_JOB_START_TIME": "86400"}
    begun_s = time.time()
    done = subprocess.run([stepd, "-c", words], env=environ, capture_output=True, text=True)
    assert abs(float(done.stdout) - begun_s) < 30


def test_accounting_that_is_off_is_said(nvml_library: Path, tmp_path: Path, spool: Path) -> None:
    plant(tmp_path / "cg")
    environ = {**environment(tmp_path / "cg", spool), **with_gpus(nvml_library, tmp_path, None)}
    run(environ)
    assert left(spool)["lacks"] == ["nvml: accounting is off (nvidia-smi -am 1)"]


def test_nothing_is_told_of_gpus_where_one_is_cut_into_slices(
    nvml_library: Path, tmp_path: Path, spool: Path
) -> None:
    """Slurm then numbers slices: the GPU of the same number may be another job's."""
    plant(tmp_path / "cg")
    gpus = with_gpus(nvml_library, tmp_path, "1 10 80 40 3000 60000 5\n", mig=True)
    run({**environment(tmp_path / "cg", spool), **gpus})
    line = left(spool)
    assert (line["gpus"], line["lacks"]) == ([], ["nvml: a GPU here is cut into slices (MIG)"])


def test_a_node_without_the_library_is_said(tmp_path: Path, spool: Path) -> None:
    plant(tmp_path / "cg")
    run(environment(tmp_path / "cg", spool, SLURM_JOB_GPUS="0", LD_LIBRARY_PATH=str(tmp_path)))
    assert left(spool)["lacks"] == ["nvml: the library is not on this node"]


def test_a_driver_that_hangs_costs_the_deadline_and_not_the_line(
    nvml_library: Path, tmp_path: Path, spool: Path
) -> None:
    plant(tmp_path / "cg")
    gpus = with_gpus(nvml_library, tmp_path, "")
    environ = {**environment(tmp_path / "cg", spool), **gpus, "FAKE_NVML_SLOW": "1000000"}
    run({**environ, "BERTH_USAGE_DEADLINE_MS": "1500"})
    assert left(spool)["lacks"] == ["nvml: no answer in time"]
    assert left(spool)["memory_peak_bytes"] == 123456789
