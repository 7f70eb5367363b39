"""Random instructions of vectors compute under the counting tool what the processor computes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from berth.pilot.emulator.tool import NAME, built

INSTRUCTIONS = 150
SEEDS = (1, 2)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


IN_REGISTERS = _words(
    "addps mulps subps minps addpd mulpd andps xorps pxor paddd psubw pmulld pshufb pmaxsd "
    "pminub unpcklps unpckhps addss mulss subsd movaps movss movsd cvtdq2ps punpcklbw pcmpgtb "
    "pmovzxbw phaddd movhlps movlhps pblendvb sqrtps cvtss2sd cvtsd2ss haddps paddusb psadbw "
    "pabsd packssdw movddup movshdup"
)
WITH_CONSTANT = _words("shufps pshufd palignr pblendw cmpps insertps pshuflw")
LOADS = _words("movaps movups movss movsd movhps movlps movq pmovsxwd paddd mulps addss movdqa")
STORES = _words("movaps movups movss movsd movhps movlps movq movntps movdqu")
WIDE = _words(
    "vaddps vmulps vfmadd231ps vfmadd132pd vfnmadd213ps vxorps vpaddd vpshufb vmaxps "
    "vunpcklps vpmulld vpermilps vpsllvd vpcmpgtb vhaddps vandnps"
)
WORDS = ("%eax", "%ecx", "%edx", "%esi", "%r8d", "%r9d", "%r10d", "%r11d")
LONG_WORDS = ("%rax", "%rcx", "%rdx", "%rsi", "%r8", "%r9", "%r10", "%r11")
MAIN = r"""
#include <stdio.h>
#include <string.h>
static __attribute__((aligned(64))) unsigned char bytes[4096];
void work(void *);
int main(void)
{
    unsigned long state = 88172645463325252ul, sum = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4096; i += 4) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            float number = (float)((int)(state >> 40) - 8000000) / 1000.f;
            memcpy(bytes + i, state & 1 ? (void *)&number : (void *)&state, 4);
        }
        work(bytes);
        for (int i = 0; i < 4096; i += 8) {
            unsigned long word;
            memcpy(&word, bytes + i, 8);
            sum = (sum ^ word) * 0x9e3779b97f4a7c15ul;
        }
    }
    printf("%lx\n", sum);
}
"""


class Assembly:
    """A function of random instructions on all registers and a buffer at RDI."""

    def __init__(self, seed: int, *, wide: bool) -> None:
        self._chance, self._wide, self._labels = random.Random(seed), wide, 0  # noqa: S311

    def _one(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _x(self) -> str:
        return f"%xmm{self._chance.randrange(16)}"

    def _y(self) -> str:
        return f"%ymm{self._chance.randrange(16)}"

    def _memory(self) -> str:
        return f"{self._chance.randrange(60) * 32}(%rdi,%rbx,8)"

    def _wide_one(self) -> str:
        x, y, memory = self._x, self._y, self._memory
        own = y if self._chance.random() < 0.6 else x
        return self._one(
            f"{self._one(*WIDE)} {own()}, {own()}, {own()}",
            f"{self._one(*WIDE)} {memory()}, {own()}, {own()}",
            f"vmovups {memory()}, {y()}", f"vmovups {y()}, {memory()}",
            f"vbroadcastss {memory()}, {y()}", f"vextractf128 $1, {y()}, {memory()}",
            f"vinsertf128 $1, {x()}, {y()}, {y()}", f"vperm2f128 $0x21, {y()}, {y()}, {y()}",
            f"vblendvps {y()}, {y()}, {y()}, {y()}", f"vpsrld $3, {y()}, {y()}",
            f"vpermps {y()}, {y()}, {y()}", f"vcvtps2pd {x()}, {y()}",
            f"vmovss {x()}, {x()}, {x()}",
            f"vmovmskps {y()}, {self._one(*WORDS)}", "vzeroupper",
        )  # fmt: skip

    def _narrow_one(self) -> str:
        x, memory, word = self._x, self._memory, self._one(*WORDS)
        kind = self._chance.random()
        if kind < 0.5:
            return f"{self._one(*IN_REGISTERS)} {x()}, {x()}"
        if kind < 0.6:
            return f"{self._one(*WITH_CONSTANT)} ${self._chance.randrange(8)}, {x()}, {x()}"
        if kind < 0.8:
            load, store = self._one(*LOADS), self._one(*STORES)
            return self._one(f"{load} {memory()}, {x()}", f"{store} {x()}, {memory()}")
        return self._one(
            f"cvtsi2ss {word}, {x()}", f"movd {word}, {x()}", f"pinsrd $1, {word}, {x()}",
            f"cvttss2si {x()}, {word}", f"movmskps {x()}, {word}", f"movd {x()}, {word}",
            f"pextrd $2, {x()}, {word}", f"movl {word}, {memory()}", f"addl {memory()}, {word}",
            f"psrldq $5, {x()}", f"psllq $3, {x()}",
        )  # fmt: skip

    def _step(self) -> list[str]:
        if self._chance.random() < 0.06:
            self._labels += 1
            test = self._one(f"ucomiss {self._x()}, {self._x()}", "test %eax, %ecx")
            jump = self._one("ja", "jz", "js", "jnz")
            return [test, f"{jump} {self._labels}f", self._narrow_one(), f"{self._labels}:"]
        wide = self._wide and self._chance.random() < 0.5
        return [self._wide_one() if wide else self._narrow_one()]

    def text(self) -> str:
        """As the assembler takes it."""
        move, register = ("vmovups", "%ymm") if self._wide else ("movups", "%xmm")
        lines = [".text", ".globl work", "work:", "push %rbx", "xor %ebx, %ebx"]
        lines += [f"{move} {32 * i}(%rdi), {register}{i}" for i in range(16)]
        lines += [f"mov ${self._chance.randrange(1 << 30)}, {word}" for word in LONG_WORDS]
        lines += [line for _ in range(INSTRUCTIONS) for line in self._step()]
        lines += [f"{move} {register}{i}, {2048 + 32 * i}(%rdi)" for i in range(16)]
        lines += [f"mov {word}, {2560 + 8 * i}(%rdi)" for i, word in enumerate(LONG_WORDS)]
        lines += ["vzeroupper"] if self._wide else []
        return "\n".join([*lines, "pop %rbx", "ret", '.section .note.GNU-stack,"",@progbits', ""])


@pytest.mark.valgrind
@pytest.mark.parametrize("wide", [False, True])
def test_vectors_are_computed_as_by_the_processor(
    wide: bool, tmp_path: Path, valgrind: None
) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    flags = Path("/proc/cpuinfo").read_text().split()
    if compiler is None or "sse4_1" not in flags or (wide and not {"avx2", "fma"} <= set(flags)):
        pytest.skip("no C compiler, or no such vectors here")
    (tmp_path / "main.c").write_text(MAIN)
    env = {**os.environ, "VALGRIND_LIB": str(built())}
    for seed in SEEDS:
        program, code = tmp_path / f"random{seed}", tmp_path / f"work{seed}.s"
        code.write_text(Assembly(seed, wide=wide).text())
        sources = [str(tmp_path / "main.c"), str(code)]
        subprocess.run([compiler, "-O1", "-o", str(program), *sources], check=True)
        tool = (
            "valgrind",
            "-q",
            f"--tool={NAME}",
            "--sampled=yes",
            f"--counts-file={tmp_path}/c.%p",
        )
        options = ("--vex-guest-max-insns=100", "--vex-iropt-register-updates=sp-at-mem-access")
        alone, counted = (
            subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout
            for command in ((str(program),), (*tool, *options, str(program)))
        )
        assert counted == alone, f"seed {seed}"
