"""What a program needs of the processor: what it would execute on any, not what it chose here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from berth.pilot.collectors.base import Stage
from berth.pilot.collectors.registry import names_of
from berth.pilot.emulate import emulate
from berth.pilot.instruction_sets import expanded
from berth.pilot.launch import Order
from berth.pilot.needs import Executed, needed_sets, read_code

SOURCE = """
#include <stdio.h>
static float a[4096], b[4096];
#define BODY { float s = 0; for (int k = 0; k < 50; k++) for (int i = 0; i < 4096; i++) \\
   { a[i] = a[i] * b[i] + 1.0f; s += a[i]; } return s; }
__attribute__((target("avx2,fma"), noinline)) static float wide(void) BODY
__attribute__((noinline)) static float plain(void) BODY
int main(void) { printf("%g\\n", ASK ? wide() : plain()); return 0; }
"""
ASKS = '-DASK=(__builtin_cpu_init(),__builtin_cpu_supports("avx2"))'


def built(folder: Path, *flags: str) -> str:
    source, made = folder / "p.c", folder / "program"
    source.write_text(SOURCE)
    command = ["gcc", "-O3", *flags, "-o", str(made), str(source)]
    if shutil.which("gcc") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("gcc does not build it here")
    return str(made)


def seen_of(program: str) -> Executed:
    order = Order((program,), dict(os.environ))
    return emulate(order, tools=names_of(Stage.EMULATED), budget_s=60).executed


@pytest.fixture(autouse=True)
def _has_avx2() -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    if not {"avx2", "fma"} <= set(flags.split()) or not shutil.which("valgrind"):
        pytest.skip("needs AVX2 and valgrind")


def test_a_program_that_chooses_by_the_processor_needs_nothing(tmp_path: Path) -> None:
    program = built(tmp_path, ASKS)
    seen = seen_of(program)
    assert "fma" in seen.sets[program]
    assert needed_sets((program,), seen) == ()


def test_a_program_that_chooses_and_is_built_for_v3_needs_v3(tmp_path: Path) -> None:
    program = built(tmp_path, ASKS, "-march=x86-64-v3")
    assert "avx" in expanded(needed_sets((program,), seen_of(program)))


def test_a_static_library_that_chooses_does_not_hide_what_the_program_needs(
    tmp_path: Path,
) -> None:
    program = built(tmp_path, "-DASK=0", "-march=x86-64-v3", "-static")
    code = read_code(program)
    assert code is None or code.asks
    assert "avx" in expanded(needed_sets((program,), seen_of(program)))


def test_a_program_that_does_not_ask_needs_what_its_code_uses(tmp_path: Path) -> None:
    """Also where no emulation ran, and where this run did not come to that code."""
    program = built(tmp_path, "-DASK=0", "-march=x86-64-v3")
    assert "avx" in expanded(needed_sets((program,), Executed({})))


def test_without_a_plain_run_what_was_executed_counts(tmp_path: Path) -> None:
    program = built(tmp_path, ASKS)
    assert needed_sets((program,), Executed({program: frozenset({"fma"})})) == ("fma",)


def test_files_of_the_system_need_nothing() -> None:
    sets = {"/usr/lib/libm.so.6": frozenset({"fma"}), "": frozenset({"avx2"})}
    assert needed_sets(("/usr/bin/zstd",), Executed(sets)) == ()


def test_what_cannot_be_read_counts_by_what_it_executed(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF" + b"\xff" * 100)
    assert read_code(str(broken)) is None
    assert needed_sets((str(broken),), Executed({str(broken): frozenset({"avx2"})})) == ("avx2",)
    assert needed_sets((str(tmp_path / "none"),), Executed({})) == ()
