"""Emulated counters are right, deterministic, bounded, and say when they are of a part only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from berth.pilot.collectors.base import Readings, Stage, emulated
from berth.pilot.collectors.registry import names_of
from berth.pilot.derive import derive
from berth.pilot.emulate import Emulation, emulate
from berth.pilot.launch import Order
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


def test_counts_of_a_program_that_fails_under_emulation_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "not-emulated"
    script.write_text('#!/bin/sh\ncase "$LD_PRELOAD$OMP_WAIT_POLICY" in *passive*) exit 3;; esac\n')
    script.chmod(0o755)
    found = emulate(Order((str(script),), dict(os.environ)), tools=("emulator",), budget_s=60)
    assert not found.counters
    [warning] = found.warnings
    assert "refused" in warning
    assert "exit status 3" in warning


def test_what_a_program_did_before_it_became_another_is_counted(program: Program) -> None:
    alone = values(counts(program("mixed"), "30000"))
    become = values(counts(program("become"), program("mixed"), "30000"))
    assert (become["instructions"] or 0) - (alone["instructions"] or 0) > 600_000


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
