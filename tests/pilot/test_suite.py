"""The reference suite: what it promises of kernels, counts of work, and its own building."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from emulated_kernels import FAULTS, planted

from berth.pilot.errors import PilotError, ToolMissing, UsageError
from berth.pilot.suite import Suite, build_suite

SOURCES = Path(__file__).parents[2] / "pilot" / "kernels"
SMALL = 5_000


@pytest.fixture
def openmp_suite(suite: Suite) -> Suite:
    if suite.openmp is None:
        pytest.skip(f"no OpenMP: {suite.openmp_problem}")
    return suite


@pytest.fixture
def quick_cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does not optimise: for tests of building, not of kernels."""
    monkeypatch.setenv("CC", _compiler(tmp_path, 'exec cc "$@" -O0'))


@pytest.fixture
def copying_cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: Suite) -> str:
    """A compiler that copies what was built before: for tests of what is beside the compiler."""
    body = (
        'for word; do [ "$last" = -o ] && target=$word; last=$word; done\n'
        f'built="{suite.build.folder}/${{target##*/}}"\n'
        'if [ -f "$built" ]; then cp "$built" "$target"; else exec cc "$@"; fi'
    )
    monkeypatch.setenv("CC", _compiler(tmp_path, body))
    return body


OWN_GROUPS = {"File", "Integer", "Irregular", "Message", "Single"}


def test_sixty_published_kernels_and_those_for_other_programs(suite: Suite) -> None:
    assert len({k.name for k in suite.kernels if k.group not in OWN_GROUPS}) == 60
    assert len({k.name for k in suite.kernels if k.group in OWN_GROUPS}) == 20
    assert {kernel.group for kernel in suite.kernels} - OWN_GROUPS == {
        "Algorithm", "Apps", "Basic", "Lcals", "Polybench", "Stream",
    }  # fmt: skip
    assert all(kernel.name.startswith(kernel.group + "_") for kernel in suite.kernels)


def test_both_builds_pass_their_own_check(suite: Suite) -> None:
    for binary in filter(None, (suite.serial, suite.openmp)):
        done = subprocess.run(
            [binary, "check"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )
        assert json.loads(done.stdout) == {"passed": 80, "wrong": []}


def test_wrong_kernels_cost_no_other(
    tmp_path: Path, quick_cc: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five faults: two constants, a last element, a write past the end, a crash."""
    suite = build_suite(sources=planted(tmp_path / "kernels"), cache=tmp_path / "cache")
    assert sorted(suite.build.wrong) == sorted(FAULTS)
    assert len(suite.kernels) == 80 - len(FAULTS)
    assert suite.left_out is not None
    assert all(name in suite.left_out for name in FAULTS)
    anchors = ("Stream_TRIAD", "Stream_ADD")
    assert [kernel.name for kernel in suite.chosen(anchors)] == ["Stream_ADD"]
    assert suite.chosen(anchors[:1]) == ()
    with pytest.raises(UsageError, match="gets them wrong on this machine"):
        suite.kernel("Stream_TRIAD")
    assert build_suite(sources=tmp_path / "kernels", cache=tmp_path / "cache") == suite


FILES = ("File_WRITE", "File_SMALL", "File_RANDOM_READ")


@pytest.mark.parametrize("kernel", FILES)
def test_files_are_made_where_tmpdir_says_and_nothing_is_left(
    suite: Suite, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = suite.run(kernel, 65_536, reps=2)
    assert len(run.seconds) == 2
    assert run.work.bytes_per_rep > 0
    assert run.work.flops_per_rep == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kernel", FILES)
def test_a_folder_that_takes_no_file_is_one_sentence(
    suite: Suite, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(PilotError, match=f"a file cannot be made in {tmp_path}/nowhere: No such"):
        suite.run(kernel, SMALL)


def test_fraction_is_what_was_executed(suite: Suite) -> None:
    for kernel in suite.kernels:
        run = suite.run(kernel, SMALL, fraction=0.3)
        if kernel.sampled:
            assert run.outer_executed == max(1, math.floor(0.3 * run.outer_total + 0.5))
        else:
            assert (run.outer_executed, run.outer_total) == (1, 1)
        assert run.fraction == run.outer_executed / run.outer_total


def test_a_tiny_fraction_still_runs_one_iteration(suite: Suite) -> None:
    run = suite.run("Polybench_GEMM", SMALL, fraction=1e-9)
    assert run.outer_executed == 1
    assert run.rep_s == pytest.approx(run.seconds[0] * run.outer_total)


def test_no_repetitions_only_initialise(suite: Suite) -> None:
    for kernel in suite.kernels:
        run = suite.run(kernel, SMALL, reps=0)
        assert run.seconds == ()
    with pytest.raises(UsageError, match="no repetitions"):
        _ = suite.run("Stream_ADD", SMALL, reps=0).rep_s


def test_the_command_is_what_run_runs(suite: Suite) -> None:
    command = suite.command("Stream_TRIAD", SMALL, reps=1)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["name"] == "Stream_TRIAD"
    assert answer["bytes_per_rep"] == 24 * SMALL


@pytest.mark.parametrize("size", [1_048_576, 2_097_152, 8_388_608])
def test_work_is_that_of_the_published_measurements(suite: Suite, size: int) -> None:
    folder = Path(os.environ.get("BERTH_DATASETS", SOURCES.parents[2] / "shared" / "datasets"))
    source = folder / "counters" / "rajaperf_quartz_lassen.parquet"
    if not source.is_file():
        pytest.skip(f"no {source.name} in BERTH_DATASETS")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = ["ProblemSize", "Iterations/Rep", "Bytes/Rep", "Flops/Rep", "Kernels/Rep"]
    table = parquet.read_table(source, columns=["kernel", "problem_size_run", *columns])
    work = suite.work(size)
    compared = set()
    for row in table.to_pylist():
        ours = work.get(row["kernel"])
        if ours is None or row["problem_size_run"] != size:
            continue
        compared.add(row["kernel"])
        assert [
            ours.size,
            ours.iterations_per_rep,
            ours.bytes_per_rep,
            ours.flops_per_rep,
            ours.kernels_per_rep,
        ] == [row[column] for column in columns], row["kernel"]
    assert len(compared) == 60


def test_allocations_are_accounted(suite: Suite) -> None:
    assert suite.work(SMALL)["Stream_TRIAD"].bytes_allocated == 3 * 8 * SMALL


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "usage"),
        (["run", "Stream_NONE"], "no kernel 'Stream_NONE'"),
        (["run", "Stream_ADD", "--size", "12"], "from 64 to"),
        (["run", "Stream_ADD", "--size", "1e6"], "whole number"),
        (["run", "Stream_ADD", "--fraction", "nan"], "--fraction must be"),
        (["run", "Stream_ADD", "--fraction", "0"], "--fraction must be"),
        (["run", "Stream_ADD", "--reps"], "needs a value"),
        (["run", "Stream_ADD", "--speed", "1"], "unknown argument '--speed'"),
        (["run", "Stream_ADD", "--threads", "2"], "serial build"),
        (["bench", "nothing"], "no benchmark 'nothing'"),
    ],
)
def test_wrong_usage_is_one_clear_line(suite: Suite, arguments: list[str], says: str) -> None:
    done = subprocess.run([suite.serial, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_more_memory_than_there_is_fails_in_a_sentence(suite: Suite) -> None:
    with pytest.raises(PilotError, match="GiB"):
        suite.run("Lcals_DIFF_PREDICT", 2**30)


def test_unknown_kernels_and_thread_counts_are_refused(suite: Suite) -> None:
    with pytest.raises(UsageError, match="no kernel 'Nope'"):
        suite.command("Nope", SMALL)
    with pytest.raises(UsageError, match="2 threads"):
        suite.command("Stream_ADD", SMALL, threads=2)


def test_every_part_of_the_machine_benchmark_answers(suite: Suite) -> None:
    for what in ("flops_f64", "flops_f32", "int_ops", "scalar_chain", "branchy", "atomic"):
        result = suite.bench(what, seconds=0.02)
        assert result.value is not None
        assert result.value > 1e6
    for what in ("reduction", "gather"):
        result = suite.bench(what, seconds=0.02)
        assert result.value is not None
        assert result.value > 1e5
    for what in ("bandwidth", "latency"):
        sizes = [point.working_set_bytes for point in suite.bench(what, seconds=0.05).points]
        assert sizes[0] == 16_384
        assert sizes == sorted(sizes)
    assert suite.bench("fork_join", seconds=0.02).value is None  # no regions in the serial build


def test_launching_a_region_takes_time(openmp_suite: Suite) -> None:
    result = openmp_suite.bench("fork_join", threads=2, seconds=0.02)
    assert result.unit == "ns"
    assert result.value is not None
    assert result.value > 0


def test_a_second_build_is_found_not_made(suite: Suite, kernel_cache: Path) -> None:
    before = suite.serial.stat().st_mtime_ns
    again = build_suite(cache=kernel_cache)
    assert again == suite
    assert again.serial.stat().st_mtime_ns == before


def test_changed_sources_are_another_build(tmp_path: Path, copying_cc: str) -> None:
    changed = tmp_path / "kernels"
    shutil.copytree(SOURCES, changed)
    (changed / "stream.c").open("a").write("/* changed */\n")
    same = build_suite(cache=tmp_path / "cache")
    other = build_suite(sources=changed, cache=tmp_path / "cache")
    assert other.build.folder != same.build.folder


def test_builds_at_once_all_succeed(tmp_path: Path, copying_cc: str) -> None:
    found: list[Suite] = []
    threads = [
        threading.Thread(target=lambda: found.append(build_suite(cache=tmp_path / "cache")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert len({suite.build.folder for suite in found}) == 1
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [found[0].build.folder.name]


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="C compiler") as caught:
        build_suite(cache=tmp_path / "cache")
    assert caught.value.hint is not None
    assert "gcc" in caught.value.hint


def test_a_compiler_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "icc-of-yore -m64")
    with pytest.raises(ToolMissing, match="icc-of-yore"):
        build_suite(cache=tmp_path / "cache")


def _compiler(folder: Path, body: str) -> str:
    path = folder / "strange-cc"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec cc --version\n{body}\n')
    path.chmod(0o755)
    return str(path)


def test_a_broken_compiler_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "echo 'main.c:1:10: fatal error: stdio.h: No such file or directory' >&2; exit 1"
    monkeypatch.setenv("CC", _compiler(tmp_path, body))
    with pytest.raises(PilotError, match=r"stdio\.h") as caught:
        build_suite(cache=tmp_path / "cache")
    assert caught.value.hint is not None
    assert "libc6-dev" in caught.value.hint
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_compiler_that_makes_nonsense_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", _compiler(tmp_path, "exit 0"))
    with pytest.raises(PilotError, match="own check"):
        build_suite(cache=tmp_path / "cache")


def test_without_openmp_the_serial_suite_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copying_cc: str
) -> None:
    refusing = 'case "$*" in *-fopenmp*) echo "error: \'omp.h\' file not found" >&2; exit 1;; esac'
    monkeypatch.setenv("CC", _compiler(tmp_path, f"{refusing}\n{copying_cc}"))
    suite = build_suite(cache=tmp_path / "cache")
    assert suite.openmp is None
    assert suite.openmp_problem is not None
    assert "omp.h" in suite.openmp_problem
    assert suite.run("Stream_ADD", SMALL).seconds
    with pytest.raises(ToolMissing, match="OpenMP"):
        suite.run("Stream_ADD", SMALL, threads=2)


def test_a_damaged_binary_says_what_to_remove(tmp_path: Path, suite: Suite) -> None:
    copy = tmp_path / suite.build.folder.name
    shutil.copytree(suite.build.folder, copy)
    (copy / "berth-kernels").write_bytes(b"")
    with pytest.raises(PilotError, match="do not run") as caught:
        build_suite(cache=tmp_path)
    assert caught.value.hint is not None
    assert "remove" in caught.value.hint
