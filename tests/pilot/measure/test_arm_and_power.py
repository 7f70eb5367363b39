"""Arm's and POWER's instruction sets are named; what cannot be named is said."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot import needs
from berth.pilot.collectors.arm_and_power import _ARM, _POWER, _SVE, of_arm, of_power
from berth.pilot.instruction_sets import KNOWN, NOT_NAMED, Has, expanded, has
from berth.pilot.needs import needed_sets

LOOP = """
#include <stdio.h>
static double a[4096], b[4096];
int main(void) { double s = 0; for (int i = 0; i < 4096; i++) { a[i] = i; b[i] = 2 * i; }
  for (int r = 0; r < 1000; r++) for (int i = 0; i < 4096; i++) a[i] = a[i] * 0.5 + b[i];
  for (int i = 0; i < 4096; i++) s += a[i];
  printf("%g\\n", s); }
"""
ONE_INSTRUCTION = """
#include <immintrin.h>
#include <ammintrin.h>
int main(int c, char **v) {
  __m128i a = _mm_set1_epi32(c), b = _mm_set1_epi32(9); unsigned long t = c;
  BODY; return (int)t + _mm_cvtsi128_si32(a) + !v; }
"""


def needs_of(folder: Path, compiler: str, source: str, *flags: str) -> tuple[str, ...]:
    code, program = folder / "p.c", folder / "program"
    code.write_text(source)
    command = [compiler, *flags, "-o", str(program), str(code)]
    if shutil.which(compiler) is None or subprocess.run(command, check=False).returncode:
        pytest.skip(f"{compiler} does not build it here")
    return needed_sets((str(program),))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("add\tx0, x0, x1", None),
        ("fmla\tv0.2d, v1.2d, v2.2d", None),
        ("paciasp", None),
        ("fcvt\th0, s1", None),
        ("udf\t#0", None),
        ("fmla\tz0.d, p0/m, z1.d, z2.d", "sve"),
        ("cntd\tx2", "sve"),
        ("mul\tz0.b, z0.b, #3", "sve"),
        ("mul\tz0.b, z1.b, z2.b", "sve2"),
        ("tbl\tz0.b, {z1.b, z2.b}, z3.b", "sve2"),
        ("smmla\tz11.s, z16.b, z0.b", "svei8mm"),
        ("fmopa\tza0.s, p0/m, p1/m, z0.s, z1.s", "sme"),
        ("ldaddal\tw0, w1, [x2]", "lse"),
        ("crc32cx\tw0, w1, x2", "crc32"),
        ("udot\tv0.4s, v1.16b, v2.16b", "dotprod"),
        ("fadd\tv0.8h, v1.8h, v2.8h", "fp16"),
        ("bfdot\tv0.4s, v1.8h, v2.8h", "bf16"),
        ("pmull\tv0.8h, v1.8b, v2.8b", None),
        ("pmull\tv0.1q, v1.1d, v2.1d", "pmull"),
        ("pacga\tx11, x26, x17", "paca"),
        (".inst\t0x1e7e0000 ; undefined", NOT_NAMED),
    ],
)
def test_arms_instruction_sets_are_named_as_in_cpuinfo(text: str, name: str | None) -> None:
    assert of_arm(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("xvmaddadp vs0,vs1,vs2", None),
        ("ld      r3,8(r1)", None),
        (".long 0x1000000", None),
        ("lxv     vs0,16(r9)", "power9"),
        ("xsaddqp v1,v2,v3", "power9"),
        ("modsd   r3,r4,r5", "power9"),
        ("plxv    vs0,0(r3)", "power10"),
        ("lxvp    vs0,0(r3)", "power10"),
        ("xvf64gerpp a0,vs32,vs34", "mma"),
    ],
)
def test_powers_levels_are_named(text: str, name: str | None) -> None:
    assert of_power(text) == name


@given(st.text(max_size=60))
def test_any_text_is_named_from_the_vocabulary_without_an_exception(text: str) -> None:
    assert {of_arm(text), of_power(text)} <= KNOWN | {None, NOT_NAMED}
    assert {name for table in (_ARM, _SVE, _POWER) for name, _ in table} <= KNOWN


def test_a_build_with_sve_needs_sve(tmp_path: Path) -> None:
    flags = ("-O3", "-ffast-math", "-mcpu=a64fx")
    assert needs_of(tmp_path, "aarch64-linux-gnu-gcc", LOOP, *flags) == ("sve",)
    neoverse_n1 = ("armv8.2", "aes", "crc32", "dotprod", "fp16", "pmull", "sha1", "sha2")
    assert has(neoverse_n1, "sve") is Has.NO


@pytest.mark.parametrize(
    ("compiler", "flags", "sets"),
    [
        ("aarch64-linux-gnu-gcc", ("-O3",), ()),
        # Its C library has code with SVE, too, and chooses it by the processor.
        ("aarch64-linux-gnu-gcc", ("-O3", "-mcpu=a64fx", "-static"), (NOT_NAMED,)),
        ("powerpc64le-linux-gnu-gcc", ("-O3", "-mcpu=power8"), ()),
        ("powerpc64le-linux-gnu-gcc", ("-O3", "-mcpu=power9"), ("power9",)),
        ("powerpc64le-linux-gnu-gcc", ("-O3", "-mcpu=power10"), ("power10",)),
        ("x86_64-linux-gnu-gcc", ("-O3", "-static"), (NOT_NAMED,)),
    ],
)
def test_builds_need_what_they_are_built_for(
    tmp_path: Path, compiler: str, flags: tuple[str, ...], sets: tuple[str, ...]
) -> None:
    assert needs_of(tmp_path, compiler, LOOP, *flags) == sets


@pytest.mark.parametrize(
    ("body", "flag", "name"),
    [
        ("a = _mm_sha256msg1_epu32(a, b)", "-msha", "sha_ni"),
        ("a = _mm_insert_si64(a, b)", "-msse4a", "sse4a"),
        ("a = _mm_gf2p8mul_epi8(a, b)", "-mgfni", "gfni"),
        ('asm volatile("rdpid %0" : "=r"(t))', "-O2", "rdpid"),
        ('asm volatile("rdrand %0" : "=r"(t))', "-O2", "rdrand"),
        ('asm volatile("clzero" : : "a"(v))', "-O2", "clzero"),
        ('asm volatile("adcx %0,%0" : "+r"(t))', "-O2", "adx"),
    ],
)
def test_one_instruction_of_a_set_is_enough(
    tmp_path: Path, body: str, flag: str, name: str
) -> None:
    source = ONE_INSTRUCTION.replace("BODY", body)
    assert needs_of(tmp_path, "x86_64-linux-gnu-gcc", source, "-O2", flag) == (name,)


@pytest.mark.parametrize(
    ("flags", "needs_avx"), [(("-march=x86-64-v3",), True), (("-march=x86-64-v2",), False)]
)
@pytest.mark.parametrize("most_bytes", [1 << 20, 256])
def test_without_emulation_a_programs_own_libraries_are_read_or_parts_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    needs_avx: bool,
    most_bytes: int,
) -> None:
    monkeypatch.setattr(needs, "MOST_BYTES_OF_LIBRARY", most_bytes)
    needs_of(tmp_path, "x86_64-linux-gnu-gcc", LOOP, "-O3", "-shared", "-fPIC", *flags)
    library = str(tmp_path / "program")
    monkeypatch.setattr(needs, "_read", {})
    assert ("avx" in expanded(needed_sets((), (library,)))) is needs_avx
    assert needed_sets((), ("/usr/lib/x86_64-linux-gnu/libm.so.6",)) == ()


def test_of_a_processor_without_tables_nothing_is_named(tmp_path: Path) -> None:
    needs_of(tmp_path, "gcc", LOOP)
    code = bytearray((tmp_path / "program").read_bytes())
    code[18:20] = (243).to_bytes(2, "little")  # EM_RISCV
    other = tmp_path / "other"
    other.write_bytes(code)
    assert needed_sets((str(other),)) == (NOT_NAMED,)
    assert needed_sets((), (str(other),)) == (NOT_NAMED,)
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert needed_sets((str(script),)) == ()
