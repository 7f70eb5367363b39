"""Classify disassembled x86 instructions by arithmetic, precision, vector use and memory access.

Floating-point operations are those that Intel's FP_ARITH_INST_RETIRED events count: add, subtract,
multiply, divide, minimum, maximum, square root, reciprocals, dot products and fused multiply-add,
but not moves, logic, compares or conversions. x87 arithmetic is added as double precision. Each
memory operand is one access; valgrind's own counts split some vector operands into lanes (four
reads for a fused multiply-add with a 256-bit memory operand).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

FP_ARITHMETIC = re.compile(
    r"v?(?:add|sub|mul|div|sqrt|max|min|rcp|rsqrt|hadd|hsub|addsub|dp)(ss|sd|ps|pd)"
)
FUSED = re.compile(r"vfn?m(?:add|sub|addsub|subadd)(?:132|213|231)(ss|sd|ps|pd)")
X87 = re.compile(r"f(?:i?(?:add|subr?|mul|divr?)p?[sl]?|sqrt|sin|cos|sincos|patan|ptan)")
SCALAR_INTEGER = re.compile(
    r"(?:add|adc|adcx|adox|sub|sbb|inc|dec|neg|not|and|andn|or|xor|mul|imul|mulx|div|idiv|shl|sal"
    r"|shr|sar|rol|ror|rcl|rcr|shld|shrd|shlx|shrx|sarx|rorx|lea|cmp|test|bt|bts|btr|btc|bsf|bsr"
    r"|tzcnt|lzcnt|popcnt|bswap|xadd|bextr|blsi|blsr|blsmsk|bzhi|pdep|pext|crc32)[bwlq]?"
)
VECTOR_INTEGER = re.compile(
    r"v?p(?:add|sub|mul|madd|sad|avg|min|max|abs|sign|cmp|sll|srl|sra|and|andn|or|xor|hadd|hsub"
    r"|hmin|test|ternlog|popcnt|lzcnt)\w*"
)
CONTROL = re.compile(r"j\w+|callq?|retq?|loop\w*")
PREFIXES = frozenset(
    ["lock", "rep", "repz", "repe", "repnz", "repne", "bnd", "notrack"]
) | frozenset(["data16", "addr32", "cs", "ds", "es", "fs", "gs", "ss", "xacquire", "xrelease"])
BMI2 = frozenset(["mulx", "rorx", "shlx", "shrx", "sarx", "pdep", "pext", "bzhi"])
BMI1 = frozenset(["andn", "bextr", "blsi", "blsr", "blsmsk"])
AVX2 = re.compile(r"vp.*|vbroadcasti\w+|vinserti128|vextracti128|vgather\w+|vmovntdqa")


@dataclass(frozen=True, slots=True)
class Kind:
    """The operations and memory accesses of one execution of an instruction."""

    fp32_ops: int = 0
    fp64_ops: int = 0
    integer: bool = False
    control: bool = False
    vector: bool = False
    atomic: bool = False
    loads: int = 0
    stores: int = 0
    extension: str | None = None
    """Instruction set beyond x86-64-v1 (SSE2) by its name in /proc/cpuinfo; None: none needed."""


@lru_cache(maxsize=65_536)
def classify(text: str) -> Kind:
    """Return the operations of a disassembled instruction in AT&T syntax, prefixes included."""
    words = [word for word in text.split() if not word.startswith("{")]
    locked = False
    while words and (words[0] in PREFIXES or words[0].startswith("rex")):
        locked |= words[0] == "lock"
        words.pop(0)
    if not words:
        return Kind()
    mnemonic, operands = words[0], " ".join(words[1:]).partition("#")[0]
    fp32 = fp64 = 0
    packed = False
    match = FP_ARITHMETIC.fullmatch(mnemonic) or FUSED.fullmatch(mnemonic)
    if match:
        packed = match.group(1)[0] == "p"
        double = match.group(1)[1] == "d"
        lanes = _vector_bytes(operands) // (8 if double else 4) if packed else 1
        twice = mnemonic.startswith(("vf", "dp", "vdp"))
        operations = lanes * (2 if twice else 1)
        fp32, fp64 = (0, operations) if double else (operations, 0)
    elif X87.fullmatch(mnemonic):
        fp64 = 1
    vector_integer = bool(VECTOR_INTEGER.fullmatch(mnemonic))
    loads, stores = accesses(mnemonic, operands)
    return Kind(
        loads=loads,
        stores=stores,
        fp32_ops=fp32,
        fp64_ops=fp64,
        integer=vector_integer or bool(SCALAR_INTEGER.fullmatch(mnemonic)),
        control=bool(CONTROL.fullmatch(mnemonic)),
        vector=packed or vector_integer,
        atomic=locked or (mnemonic.startswith("xchg") and "(" in operands),
        extension=_extension(mnemonic, operands),
    )


def _vector_bytes(operands: str) -> int:
    if "%zmm" in operands:
        return 64
    return 32 if "%ymm" in operands else 16


def _extension(mnemonic: str, operands: str) -> str | None:
    named = _OF_STEM.get(mnemonic) or _OF_STEM.get(mnemonic[:-1])
    if named is not None:
        return named
    if not mnemonic.startswith(("v", "k")):
        return _matching(_LEGACY, mnemonic, None)
    wide = "%zmm" in operands
    if mnemonic[0] == "k" or wide or _EVEX.search(operands) or _ONLY_EVEX.fullmatch(mnemonic):
        return _matching(_AVX512, mnemonic, "avx512f" if wide or mnemonic[0] == "k" else "avx512vl")
    if not ("%ymm" in operands or "%xmm" in operands):
        return None
    plain = "avx2" if "%ymm" in operands and AVX2.fullmatch(mnemonic) else "avx"
    return "fma" if FUSED.fullmatch(mnemonic) else _matching(_VEX, mnemonic, plain)


def _matching(
    sets: Iterable[tuple[str, re.Pattern[str]]], mnemonic: str, otherwise: str | None
) -> str | None:
    """Return the name of the first instruction set that has the mnemonic, else ``otherwise``."""
    return next((name for name, pattern in sets if pattern.fullmatch(mnemonic)), otherwise)


_OF_STEM = {
    **dict.fromkeys(BMI1, "bmi1"),
    **dict.fromkeys(BMI2, "bmi2"),
    **{name: name for name in ("popcnt", "lzcnt", "movbe")},
}
"""Instruction set by mnemonic without size suffix.

tzcnt is left out: older processors execute it as bsf, and compilers use it for all processors.
"""
_LEGACY = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("aes", r"aes\w+"),
        ("pclmulqdq", r"pclmul\w+"),
        ("sha_ni", r"sha(?:1|256)\w+"),
        ("adx", r"ad[co]x[lq]?"),
        ("amx_tile", r"tile\w+|td(?:p\w+)"),
    )
)
_EVEX = re.compile(r"%[xy]mm(?:1[6-9]|2\d|3[01])|%k[0-7]")
"""Registers and masks that only AVX-512 has."""
_ONLY_EVEX = re.compile(
    r"vpternlog[dq]|vmovdq[au](?:8|16|32|64)|vpsraq|vprol\w*|vpror\w*|vperm[it]2\w+|vp?compress\w+"
    r"|vp?expand\w+|vrndscale\w+|vgetexp\w+|vgetmant\w+|vscalef\w+|vpmov\w2m|vpmovm2\w|valign[dq]"
    r"|vrcp14\w+|vrsqrt14\w+|vrange\w+|vreduce\w+|vpconflict[dq]|vplzcnt[dq]|vfixupimm\w+|vpabsq"
    r"|vp(?:max|min)[su]q|vp(?:and|andn|or|xor)[dq]|vpmullq|vpmov(?:qd|qw|qb|dw|db|wb)|vdbpsadbw"
    r"|vp(?:dpbus|dpws)ds?|vpopcnt[bwdq]|vpsh[lr]d\w+|vpmultishiftqb|vpshufbitqmb|vpmadd52\w+|vpermb"
    r"|vcvt\w*(?:uqq|qq|udq|usi)\w*|vcvtne\w*bf16\w*|vdpbf16ps|v\w+[ps]h|vextract[fi](?:32|64)\w+"
    r"|vinsert[fi](?:32|64)\w+|vbroadcast[fi](?:32|64)\w+|vshuf[fi](?:32|64)\w+|vp?blendm\w+"
)
_AVX512 = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("avx512_vnni", r"vpdp(?:bus|ws)ds?"),
        ("avx512_bf16", r"vcvtne\w*bf16\w*|vdpbf16ps"),
        ("avx512_vpopcntdq", r"vpopcnt[dq]"),
        ("avx512_bitalg", r"vpopcnt[bw]|vpshufbitqmb"),
        ("avx512_vbmi2", r"vpcompress[bw]|vpexpand[bw]|vpsh[lr]dv?[wdq]"),
        ("avx512vbmi", r"vpermb|vperm[it]2b|vpmultishiftqb"),
        ("avx512ifma", r"vpmadd52\w+"),
        ("avx512cd", r"vpconflict[dq]|vplzcnt[dq]|vpbroadcastm\w+"),
        (
            "avx512dq",
            r"vpmullq|vrange\w+|vreduce\w+|vfpclass\w+|k\w+b|vpmov[dq]2m|vpmovm2[dq]"
            r"|v(?:and|andn|or|xor)p[sd]|vextract[fi](?:64x2|32x8)|vinsert[fi](?:64x2|32x8)"
            r"|vbroadcast[fi](?:32x2|32x8|64x2)|vcvt\w*(?:qq2|2u?qq)\w*",
        ),
        (
            "avx512bw",
            r"vmovdqu(?:8|16)|k\w+[dq]|vdbpsadbw|vpmov[bw]2m|vpmovm2[bw]|vpmovu?s?wb|vpblendm[bw]"
            r"|vp(?:add|sub)u?s?[bw]|vp(?:max|min|cmp|abs|avg)\w*[bw]|vpshuf(?:b|hw|lw)|vpsadbw"
            r"|vpmadd(?:wd|ubsw)|vpmul[hl]\w*w|vpack\w+|vpunpck[hl](?:bw|wd)|vps[rl][la]v?w"
            r"|vptestn?m[bw]|vperm[it]?2?w|vpbroadcast[bw]|vpalignr",
        ),
        ("avx512_fp16", r"v(?!broad|ext|ins|shuf|p|alig|gath|scat)\w+[ps]h"),
    )
)
_VEX = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("f16c", r"vcvtph2ps|vcvtps2ph"),
        ("vaes", r"vaes(?:enc|dec)(?:last)?"),
        ("vpclmulqdq", r"vpclmul\w+"),
        ("gfni", r"vgf2p8\w+"),
        ("avx2", r"vps[lr][la]v[dq]|vpgather\w+|vgather\w+|vpmaskmov[dq]|vpbroadcast\w+|vpblendd"),
    )
)


NONE = re.compile(r"lea[bwlq]?|nop[wlq]?|prefetch\w*|endbr64|clflush\w*|invlpg")
READ_ONLY = re.compile(
    r"cmp[bwlq]?|test[bwlq]?|bt[wlq]?|v?u?comis[sd]|v?ptest|i?mul[bwlq]?|i?div[bwlq]?"
    r"|v?ldmxcsr|fldcw|fld\w*|fild\w*|f(?:i?(?:add|subr?|mul|divr?|comp?))\w*|fxrstor\w*|xrstor\w*"
)
WRITE_ONLY = re.compile(
    r"v?mov(?!s[bwlq]$)\w*|set\w+|v?p?extr\w*|v?stmxcsr|fn?st\w*|fi(?:stt?)p?\w*|stos\w*"
    r"|vcvtps2ph|vmaskmov\w*|vpmaskmov\w*|fxsave\w*|xsave\w*|vpcompress\w*|vcompress\w*"
)
STRING_MOVE = re.compile(r"movs[bwlq]")
GATHER = re.compile(r"vp?gather[dq](ps|pd|d|q)")
ABSOLUTE = re.compile(r"(?:%[cdefgs]s:)?-?(?:0x)?[0-9a-f]+", re.ASCII)


def accesses(mnemonic: str, operands: str) -> tuple[int, int]:
    """Return the numbers of memory (reads, writes) of an instruction.

    Stack accesses of calls, pushes, pops and returns are included.
    """
    if NONE.fullmatch(mnemonic):
        return 0, 0
    words = _split(operands)
    if mnemonic.startswith(("j", "call")):
        through = sum(1 for word in words if word.startswith("*") and "(" in word)
        return through, int(mnemonic.startswith("call"))
    places = [_is_memory(word) for word in words]
    if mnemonic in ("push", "pushq", "pushw", "pop", "popq", "popw", "ret", "retq", "leave"):
        pushes = mnemonic.startswith("push")
        extra = int(any(places))
        return (extra, 1) if pushes else (1, extra)
    if not any(places):
        return 0, 0
    gather = GATHER.fullmatch(mnemonic)
    if gather:
        width = 32 if "%ymm" in operands else 16
        return width // (8 if gather.group(1) in ("pd", "q") else 4), 0
    return _by_direction(mnemonic, places)


def _by_direction(mnemonic: str, places: list[bool]) -> tuple[int, int]:
    count = sum(places)
    last = places[-1]
    if READ_ONLY.fullmatch(mnemonic):
        return count, 0
    if STRING_MOVE.fullmatch(mnemonic):
        # movsb (%rsi),(%rdi) copies memory; a sign extension has two suffixes: movsbl (%rax),%ecx.
        return count - int(last), int(last)
    if WRITE_ONLY.fullmatch(mnemonic):
        return count - int(last), int(last)
    # Everything else reads its sources, and reads and writes its destination.
    return count, int(last)


def _is_memory(word: str) -> bool:
    if word.startswith(("$", "*")):
        return False
    return (
        "(" in word
        or (not word.startswith("%") and ABSOLUTE.fullmatch(word) is not None)
        or (word.startswith("%") and ":" in word)
    )


def _split(operands: str) -> list[str]:
    """Return an instruction's operands, split at commas outside of parentheses.

    Symbols after the operands and masks in braces are dropped.
    """
    text = operands.partition("<")[0].strip()
    words, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            words.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        words.append(current.strip())
    return [re.sub(r"\{.*\}", "", word) for word in words]
