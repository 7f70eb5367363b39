"""What kind of instruction an x86 text is: precision, lanes, integer, control, vector, memory.

Floating-point arithmetic is what Intel's FP_ARITH_INST_RETIRED events count (add, subtract,
multiply, divide, minimum, maximum, square root, reciprocals, dot products, fused multiply-add;
neither moves, logic, compares nor conversions), plus x87 arithmetic, taken as double precision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from berth.pilot.collectors.x86_memory import accesses

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
    """What executing the instruction once does."""

    fp32_ops: int = 0
    fp64_ops: int = 0
    integer: bool = False
    control: bool = False
    vector: bool = False
    atomic: bool = False
    loads: int = 0
    stores: int = 0
    extension: str | None = None
    """Instruction set beyond x86-64-v1 (SSE2), in /proc/cpuinfo's terms."""


@lru_cache(maxsize=65_536)
def classify(text: str) -> Kind:
    """The kind of one disassembled instruction in AT&T syntax, prefixes and operands included."""
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
    stem = mnemonic.rstrip("lq") if mnemonic[:-1] in BMI1 | BMI2 else mnemonic
    vector = "%ymm" in operands or "%xmm" in operands
    tests = (
        ("avx512f", "%zmm" in operands or re.search(r"%k[0-7]", operands) is not None),
        ("fma", FUSED.fullmatch(mnemonic) is not None),
        ("bmi2", stem in BMI2),
        ("bmi1", stem in BMI1),
        ("avx2", "%ymm" in operands and AVX2.fullmatch(mnemonic) is not None),
        ("avx", mnemonic.startswith("v") and vector),
        ("popcnt", mnemonic.startswith("popcnt")),
    )
    return next((name for name, needed in tests if needed), None)
