"""Emulated counters are right, deterministic, bounded, and say when they are of a part only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from berth.pilot.collectors.base import Readings, Stage, emulated
from berth.pilot.collectors.registry import names_of
from berth.pilot.derive import derive
from berth.pilot.emulate import Emulation, emulate
from berth.pilot.emulator.tool import NAME, built
from berth.pilot.launch import Order
from berth.pilot.needs import needed_sets
from berth.pilot.options import PilotOptions
from berth.pilot.profile import Measurement, Quality
from berth.pilot.run_pilot import run_pilot

Program = Callable[[str], str]
pytestmark = [pytest.mark.valgrind]
N = 20_000


@pytest.fixture(autouse=True)
def _needs_valgrind(valgrind: None) -> None:
    return


def counts(*command: str, **env: str) -> Emulation:
    order = Order(command, {**os.environ, **env})
    return emulate(order, tools=names_of(Stage.EMULATED), budget_s=120)


def values(found: Emulation) -> Mapping[str, float | None]:
    return {name: measurement.value for name, measurement in found.counters.items()}


def test_counts_are_those_of_the_source(program: Program) -> None:
    base = values(counts(program("triad"), "0"))
    more = values(counts(program("triad"), str(N)))
    grown = {name: (more[name] or 0) - (base[name] or 0) for name in base}
    assert grown["fp64_ops"] == 8 * N
    assert grown["fp32_ops"] == 0
    assert grown["loads"] == pytest.approx(8 * N, rel=0.01)
    assert grown["stores"] == pytest.approx(6 * N, rel=0.01)
    assert grown["load_bytes"] == pytest.approx(64 * N, rel=0.01)
    assert grown["l1_load_misses"] == pytest.approx(2 * 4 * N / 8, rel=0.05)


def test_the_same_program_counts_the_same_twice(program: Program) -> None:
    one = counts(program("triad"), str(N))
    two = counts(program("triad"), str(N), SHLVL="77", SSH_TTY="/dev/pts/3", TERM="dumb")
    assert one.counters == two.counters
    assert len(one.counters) > 15


def test_every_value_is_marked_emulated_with_its_tool(program: Program) -> None:
    found = counts(program("triad"), "100")
    assert {m.quality for m in found.counters.values()} == {Quality.EMULATED}
    assert {m.source for m in found.counters.values()} == {"emulator"}
    assert {r.name for r in found.reports if r.status == "used"} == {"emulator"}


def test_a_forked_child_is_counted_once(program: Program) -> None:
    alone = values(counts(program("forker")))
    forked = counts(program("forker"), "fork")
    grown = (forked.counters["instructions"].value or 0) - (alone["instructions"] or 0)
    # The child's hundred thousand turns of six instructions, and the fork itself.
    assert 590_000 < grown < 640_000
    assert not forked.warnings


@pytest.mark.slow
def test_windows_give_the_misses_within_their_error(program: Program) -> None:
    order = Order((program("mixed"), "9000000"), dict(os.environ))
    whole, part = (
        emulate(replace(order, sampled=sampled), tools=("emulator",), budget_s=120).counters
        for sampled in (False, True)
    )
    assert part["instructions"] == whole["instructions"]
    assert part["load_bytes"] == whole["load_bytes"]
    assert part["branches"] == whole["branches"]
    # The program's store misses are all in its last hundredth, which may lie between two windows.
    assert "branches_taken" not in part
    for name in ("l1_load_misses", "branch_misses"):
        error = part[name].standard_error
        assert error
        assert whole[name].standard_error is None
        assert part[name].value == pytest.approx(whole[name].value, abs=2 * error)
        assert error < 0.3 * (part[name].value or 0)


@pytest.mark.slow
def test_a_last_phase_between_two_windows_is_within_the_error(program: Program) -> None:
    order = Order((program("streams_last"), "600000000", "64"), dict(os.environ))
    whole, part = (
        emulate(replace(order, sampled=sampled), tools=("emulator",), budget_s=120).counters
        for sampled in (False, True)
    )
    for name in ("l1_load_misses", "llc_load_misses"):
        counted, error = part[name].value, part[name].standard_error
        assert counted is not None
        assert error
        assert whole[name].value == pytest.approx(counted, abs=2 * error)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settles"), [("mixed", True), ("streams_last", False)])
def test_counting_ends_where_the_shares_have_settled(
    program: Program, name: str, settles: bool
) -> None:
    arguments = ("30000000",) if settles else ("20000000", "512")
    order = Order((program(name), *arguments), dict(os.environ), sampled=True, settle_after_s=1.0)
    emulation = emulate(order, tools=("emulator",), budget_s=60)
    instructions = emulation.counters["instructions"]
    assert instructions.complete is not settles
    assert ("had settled" in (instructions.note or "")) is settles


def test_counts_of_a_program_that_fails_under_emulation_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "not-emulated"
    script.write_text('#!/bin/sh\ncase "$LD_PRELOAD$OMP_WAIT_POLICY" in *passive*) exit 3;; esac\n')
    script.chmod(0o755)
    found = emulate(Order((str(script),), dict(os.environ)), tools=("emulator",), budget_s=60)
    assert not found.counters
    [warning] = found.warnings
    assert "refused" in warning
    assert "exit status 3" in warning


def test_a_rank_is_emulated_only_once(tmp_path: Path) -> None:
    script = tmp_path / "rank"
    script.write_text('#!/bin/sh\necho run >> "$0.runs"\nexit 1\n')
    script.chmod(0o755)
    for once, runs in ((False, 2), (True, 3)):
        emulate(
            Order((str(script),), dict(os.environ)), tools=("emulator",), budget_s=60, once=once
        )
        assert len((tmp_path / "rank.runs").read_text().splitlines()) == runs


@pytest.mark.slow
def test_a_rank_goes_on_without_counting_after_its_limit(program: Program, tmp_path: Path) -> None:
    command = f"{program('mixed')} 60000000 && echo whole > {tmp_path}/end"
    order = Order(("sh", "-c", command), dict(os.environ), time_limit_s=500.0)
    counted = emulate(order, tools=("emulator",), budget_s=1, once=True)
    assert (tmp_path / "end").exists()
    instructions = counted.counters["instructions"]
    assert not instructions.complete
    assert "that is its limit" in (instructions.note or "")
    assert (instructions.value or 0) > 1e5


def test_a_rank_leaves_its_counts_before_the_program_ends(program: Program) -> None:
    seen: list[Emulation] = []

    def early(emulation: Emulation) -> bool:
        seen.append(emulation)
        return len(seen) > 2

    order = Order((program("hold"), "1", "600000"), dict(os.environ), time_limit_s=500.0)
    counted = emulate(order, tools=("emulator",), budget_s=1, once=True, early=early)
    assert len(seen) == 3
    assert counted.counters == seen[0].counters
    assert counted.counters["instructions"].value


@pytest.mark.slow
def test_what_is_computed_in_valgrinds_place_has_the_same_results(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or os.uname().machine != "x86_64":
        pytest.skip("no C compiler for x86-64")
    program, source = str(tmp_path / "rounding"), Path(__file__).with_name("rounding.c")
    subprocess.run([compiler, "-O1", "-frounding-math", "-o", program, source], check=True)

    def printed(*command: str) -> str:
        env = {**os.environ, "VALGRIND_LIB": str(built())}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    ours = ("valgrind", "-q", f"--tool={NAME}", f"--counts-file={tmp_path}/counts", program)
    assert printed(*ours, "10000") == printed("valgrind", "-q", "--tool=none", program, "10000")
    # Here valgrind itself is wrong: it loses the sign of zeros.
    assert printed(*ours, "10000", "fused") == printed(program, "10000", "fused")


def test_what_a_program_did_before_it_became_another_is_counted(program: Program) -> None:
    alone = values(counts(program("mixed"), "30000"))
    become = values(counts(program("become"), program("mixed"), "30000"))
    assert (become["instructions"] or 0) - (alone["instructions"] or 0) > 600_000


def test_a_program_that_refuses_one_thread_is_counted_with_its_own(program: Program) -> None:
    command = f'test -z "$OMP_NUM_THREADS" && exec {program("triad")} 20000'
    found = counts("sh", "-c", command)
    assert found.counters["fp64_ops"].complete
    assert found.counters["fp64_ops"].value == pytest.approx(8 * N, rel=0.1)
    assert not found.warnings


def test_libraries_that_are_unloaded_again_are_counted(program: Program) -> None:
    found = counts(program("loader"))
    assert not found.warnings
    assert (found.counters["fp64_ops"].value or 0) > 2000
    assert found.counters["instructions"].complete


def test_code_made_at_run_time_is_classified_and_its_share_is_named(program: Program) -> None:
    found = counts(program("generated"), "50000")
    report = next(r for r in found.reports if r.name == "emulator")
    assert "made at run time" in report.detail
    assert "100.0% of the instructions classified" in report.detail
    assert (found.counters["int_ops"].value or 0) > 50_000


def test_programs_started_by_a_shell_are_followed(program: Program) -> None:
    direct = values(counts(program("triad"), str(N)))
    shell = values(counts("/bin/sh", "-c", f"{program('triad')} {N}; :"))
    assert shell["fp64_ops"] == direct["fp64_ops"]
    assert (shell["instructions"] or 0) > (direct["instructions"] or 0)


@pytest.mark.slow
def test_a_run_that_is_cut_keeps_its_counts_marked_as_a_part(program: Program) -> None:
    order = Order((program("hold"), "1", "60000"), dict(os.environ))
    found = emulate(order, tools=names_of(Stage.EMULATED), budget_s=6)
    derived = derive(found.counters)
    assert (derived["instructions"].value or 0) > 100_000
    assert derived["instructions"].complete is False
    assert derived["load_ratio"].complete is False
    assert any("counting ended after" in warning for warning in found.warnings)


def test_a_program_that_handles_sigterm_keeps_its_counts_when_it_is_cut(program: Program) -> None:
    """So does a launcher, which would kill its ranks while they write theirs."""
    command = f"trap 'kill -9 $child' TERM; {program('mixed')} 4000000000 & child=$!; wait; wait"
    order = Order(("sh", "-c", command), dict(os.environ), time_limit_s=500.0)
    counted = emulate(order, tools=("emulator",), budget_s=2)
    assert (counted.counters["instructions"].value or 0) > 1e6


def test_avx512_is_recognised_and_said(program: Program) -> None:
    found = counts(program("avx512"))
    [warning] = [text for text in found.warnings if "AVX-512" in text]
    assert "only time, threads and memory are measured" in warning
    assert "avx512f" in needed_sets((), found.executed)
    assert "instructions" not in found.counters


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("valgrind", "valgrind is not available"),
        ("objdump", "objdump (binutils) is not installed"),
        ("compiler", "the counting tool cannot be built"),
        ("x86-64", "it counts instructions of x86-64 only, and this machine is aarch64"),
    ],
)
def test_where_the_tool_cannot_run_the_pilot_measures_natively_and_says_why(
    lacking: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_by = shutil.which
    monkeypatch.setattr(shutil, "which", lambda n, **k: None if n == lacking else found_by(n, **k))
    if lacking == "compiler":
        monkeypatch.setenv("CC", "/bin/false")
        monkeypatch.setenv("BERTH_CACHE", str(tmp_path))
    if lacking == "x86-64":
        arm = os.uname_result(("Linux", "node", "6.1", "1", "aarch64"))
        monkeypatch.setattr(os, "uname", lambda: arm)
    command = ("/bin/sh", "-c", "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done")
    profile = run_pilot(PilotOptions(command, dict(os.environ), repeats=1, count=True))
    [report] = [r for r in profile.collectors if r.name == "emulator"]
    assert report.status == "absent"
    assert report.detail.startswith(said)
    assert "measures natively only (time, processor time, memory)" in report.detail
    assert said in (profile.counters["load_bytes"].note or "")
    assert profile.complete
    assert profile.runtime is not None
    assert profile.value("cpu_time_s") is not None
    assert profile.peak_memory_bytes
    assert not list(tmp_path.iterdir())


def _readings(**counters: float) -> Readings:
    made = {name: emulated("x", value, None, complete=True) for name, value in counters.items()}
    return Readings(made)


def test_a_ratio_with_nothing_below_is_missing_not_infinite() -> None:
    measured: dict[str, Measurement] = dict(_readings(branches=0, branch_misses=0).counters)
    found = derive(measured)["branch_miss_ratio"]
    assert found.value is None
    assert "zero" in (found.note or "")
