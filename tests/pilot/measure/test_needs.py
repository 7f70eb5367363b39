"""What a program needs of the processor: what it would execute on any, not what it chose here."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.instruction_sets import expanded
from berth.pilot.needs import needed_sets, read_code, read_elf

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


@pytest.fixture(autouse=True)
def _has_avx2() -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    if not {"avx2", "fma"} <= set(flags.split()):
        pytest.skip("needs AVX2")


def test_a_program_that_chooses_by_the_processor_needs_nothing(tmp_path: Path) -> None:
    assert needed_sets((built(tmp_path, ASKS),)) == ()


def test_a_program_that_does_not_ask_needs_what_its_code_uses(tmp_path: Path) -> None:
    program = built(tmp_path, "-DASK=0", "-march=x86-64-v3")
    assert "avx" in expanded(needed_sets((program,)))


def test_files_of_the_system_need_nothing() -> None:
    assert needed_sets(("/usr/bin/zstd",), ("/usr/lib/libm.so.6", "")) == ()


def test_what_cannot_be_read_needs_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF" + b"\xff" * 100)
    assert read_code(str(broken)) is None
    assert needed_sets((str(broken), str(tmp_path / "none"))) == ()


@given(st.data())
def test_a_damaged_program_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(Path("/proc/self/exe").read_bytes()[: 1 << 16])
    for _ in range(data.draw(st.integers(0, 8))):
        whole[data.draw(st.integers(0, 63))] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(whole[: data.draw(st.integers(0, len(whole)))])
        file.flush()
        facts = read_elf(Path(file.name))
    assert facts is None or facts.machine
