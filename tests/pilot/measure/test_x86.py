"""Disassembled instructions are taken for what they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors.x86 import _AS_VEX, _AVX512, _BY_MNEMONIC, _VEX, classify
from berth.pilot.instruction_sets import KNOWN, NOT_NAMED


@pytest.mark.parametrize(
    ("text", "single", "double"),
    [
        ("addsd %xmm1,%xmm0", 0, 1),
        ("mulss (%rax),%xmm0", 1, 0),
        ("addps %xmm1,%xmm0", 4, 0),
        ("vaddpd %ymm0,%ymm1,%ymm2", 0, 4),
        ("vfmadd213pd (%rax,%rcx,1),%ymm0,%ymm1", 0, 8),
        ("vfnmadd231ss %xmm0,%xmm1,%xmm2", 2, 0),
        ("vmulps %zmm0,%zmm1,%zmm2", 16, 0),
        ("fmulp %st,%st(1)", 0, 1),
        ("sqrtsd %xmm0,%xmm0", 0, 1),
        ("movsd %xmm0,(%rax)", 0, 0),
        ("ucomisd %xmm0,%xmm1", 0, 0),
        ("cvtsi2sd %rax,%xmm0", 0, 0),
        ("xorps %xmm0,%xmm0", 0, 0),
        ("cmpsb %es:(%rdi),%ds:(%rsi)", 0, 0),
    ],
)
def test_floating_point_operations_count_lanes_and_fused_twice(
    text: str, single: int, double: int
) -> None:
    kind = classify(text)
    assert (kind.fp32_ops, kind.fp64_ops) == (single, double)


@pytest.mark.parametrize(
    ("text", "loads", "stores"),
    [
        ("mov 0x8(%rsi),%rdi", 1, 0),
        ("mov %rdi,0x8(%rsi)", 0, 1),
        ("add $0x1,(%rax)", 1, 1),
        ("vfmadd213pd (%rax,%rcx,1),%ymm0,%ymm1", 1, 0),
        ("lea 0x8(%rsi),%rdi", 0, 0),
        ("nopw 0x0(%rax,%rax,1)", 0, 0),
        ("push %r13", 0, 1),
        ("pop %r13", 1, 0),
        ("call 1040 <strtol@plt>", 0, 1),
        ("call *0x2def(%rip)        # 3fc0 <x@GLIBC>", 1, 1),
        ("jmp 1080 <main+0x10>", 0, 0),
        ("jmp *(%rax,%rdx,8)", 1, 0),
        ("ret", 1, 0),
        ("cmp %rax,(%rbx)", 1, 0),
        ("movsbl (%rax),%ecx", 1, 0),
        ("movsq %ds:(%rsi),%es:(%rdi)", 1, 1),
        ("rep stos %al,%es:(%rdi)", 0, 1),
        ("mov %fs:0x28,%rax", 1, 0),
        ("lock cmpxchg %ecx,(%rdx)", 1, 1),
        ("vmovupd %ymm0,(%rcx,%rax,1)", 0, 1),
        ("vgatherqpd %ymm3,(%rax,%ymm1,8),%ymm2", 4, 0),
        ("cmovne (%rax),%rbx", 1, 0),
        ("sete 0x3(%rax)", 0, 1),
        ("add %rax,%rbx", 0, 0),
    ],
)
def test_memory_operands_are_read_written_or_both(text: str, loads: int, stores: int) -> None:
    kind = classify(text)
    assert (kind.loads, kind.stores) == (loads, stores)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("addl $0x1,%eax", "integer"),
        ("vpaddd %ymm0,%ymm1,%ymm2", "integer"),
        ("lea (%rax,%rax,1),%rdx", "integer"),
        ("jne 10c8 <main+0x58>", "control"),
        ("bnd jmp *%rax", "control"),
        ("notrack call *%rax", "control"),
        ("ret", "control"),
        ("vpaddd %ymm0,%ymm1,%ymm2", "vector"),
        ("mulpd %xmm1,%xmm0", "vector"),
        ("lock xadd %eax,(%rdx)", "atomic"),
        ("xchg %eax,(%rdx)", "atomic"),
    ],
)
def test_kinds(text: str, what: str) -> None:
    assert getattr(classify(text), what) is True


@pytest.mark.parametrize(
    "text", ["pushq $0x1", "movups %xmm0,(%rax)", "prefetcht0 (%rax)", "pause", "nop", ""]
)
def test_moves_and_hints_are_of_no_kind(text: str) -> None:
    kind = classify(text)
    assert (kind.integer, kind.control, kind.vector, kind.atomic) == (False,) * 4


@pytest.mark.parametrize(
    ("text", "extension"),
    [
        ("vaddsd %xmm0,%xmm1,%xmm2", "avx"),
        ("vpaddd %ymm0,%ymm1,%ymm2", "avx2"),
        ("vfmadd231sd %xmm0,%xmm1,%xmm2", "fma"),
        ("vmovdqu64 %zmm0,(%rax)", "avx512f"),
        ("mulx %rax,%rbx,%rcx", "bmi2"),
        ("shlx %rax,%rbx,%rcx", "bmi2"),
        ("popcnt %rax,%rbx", "popcnt"),
        ("lzcnt %rax,%rbx", "lzcnt"),
        ("movbe (%rax),%rbx", "movbe"),
        ("andn %rax,%rbx,%rcx", "bmi1"),
        ("vcvtph2ps %xmm0,%ymm1", "f16c"),
        ("vpternlogd $0x96,%ymm0,%ymm1,%ymm2", "avx512vl"),
        ("vaddpd %ymm17,%ymm1,%ymm2", "avx512vl"),
        ("vpmullq %ymm0,%ymm1,%ymm2", "avx512dq"),
        ("vmovdqu8 (%rax),%zmm0", "avx512bw"),
        ("vpdpbusd %zmm0,%zmm1,%zmm2", "avx512_vnni"),
        ("aesenc %xmm0,%xmm1", "aes"),
        ("vpdpwssd %ymm1,%ymm1,%ymm0", "avx512_vnni"),
        ("{vex} vpdpbusd %xmm1,%xmm1,%xmm0", "avx_vnni"),
        ("vpermilps %ymm1,%ymm1,%ymm0", "avx"),
        ("vpbroadcastd %eax,%ymm0", "avx512vl"),
        ("vfmaddps %xmm0,%xmm1,%xmm1,%xmm0", "fma4"),
        ("vprotb $0x3,%xmm1,%xmm0", "xop"),
        ("bextr $0x3,%eax,%ebx", "tbm"),
        ("tdpbssd %tmm1,%tmm2,%tmm0", "amx_int8"),
        ("vzeroupper", "avx"),
        ("insertq %xmm0,%xmm1", "sse4a"),
        ("extrq %xmm0,%xmm1", "sse4a"),
        ("movntsd %xmm0,(%rax)", "sse4a"),
        ("gf2p8mulb %xmm0,%xmm1", "gfni"),
        ("rdpid %rax", "rdpid"),
        ("rdrand %rax", "rdrand"),
        ("clzero", "clzero"),
        ("repz (bad)", NOT_NAMED),
        ("xgetbv", None),
        ("tzcnt %rax,%rbx", None),
        ("addsd %xmm0,%xmm1", None),
    ],
)
def test_instruction_sets_are_named_as_in_cpuinfo(text: str, extension: str | None) -> None:
    assert classify(text).extension == extension


def test_what_the_pilot_names_is_of_the_vocabulary() -> None:
    named = {name for table in (_BY_MNEMONIC, _AVX512, _VEX) for name, _ in table}
    assert (named | set(_AS_VEX.values())) - {NOT_NAMED} <= KNOWN


@given(st.text(max_size=60))
def test_any_text_is_classified_without_an_exception(text: str) -> None:
    kind = classify(text)
    assert kind.fp32_ops >= 0
    assert kind.loads >= 0
