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

from berth.pilot.instruction_sets import NOT_NAMED

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
AVX2 = re.compile(
    r"vp(?!ermil|erm2f|test).*|vbroadcasti\w+|vinserti128|vextracti128|vgather\w+|vmovntdqa|vmpsadbw"
)


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
    """The result of :func:`extension_of`."""


@lru_cache(maxsize=65_536)
def classify(text: str) -> Kind:
    """Return the operations of a disassembled instruction in AT&T syntax, prefixes included."""
    mnemonic, operands = _parts(text)
    if not mnemonic:
        return Kind()
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
        atomic=text.startswith("lock ") or (mnemonic.startswith("xchg") and "(" in operands),
        extension=extension_of(text),
    )


def _parts(text: str) -> tuple[str, str]:
    """Return an instruction's mnemonic and operands, without prefixes and comments."""
    words = [word for word in text.split() if not word.startswith("{")]
    while words and (words[0] in PREFIXES or words[0].startswith("rex")):
        words.pop(0)
    return (words[0], " ".join(words[1:]).partition("#")[0]) if words else ("", "")


def _vector_bytes(operands: str) -> int:
    if "%zmm" in operands:
        return 64
    return 32 if "%ymm" in operands else 16


def extension_of(text: str) -> str | None:
    """Return the instruction set beyond x86-64-v1 that a disassembled instruction needs.

    The names are those of /proc/cpuinfo. None: none is needed; ``NOT_NAMED``: objdump does not know
    the instruction.
    """
    first = text.partition(" ")[0]
    if first not in PREFIXES and not first.startswith(("v", "k", "{", "rex", "bextr")):
        return _by_mnemonic(first)
    mnemonic, operands = _parts(text)
    named = _by_mnemonic(mnemonic)
    if named is not None:
        return _AS_VEX.get(named, named) if "{vex}" in text else named
    if mnemonic.startswith("bextr"):
        return "tbm" if operands.startswith("$") else "bmi1"
    return _of_vectors(mnemonic, operands, text) if mnemonic.startswith(("v", "k")) else None


def _of_vectors(mnemonic: str, operands: str, text: str) -> str | None:
    """Return the instruction set of an instruction with the encoding of AVX or AVX-512."""
    wide = "%zmm" in operands
    # From a general register, which only AVX-512 does.
    evex = mnemonic.startswith("vpbroadcast") and operands.startswith(("%e", "%r"))
    evex = evex or wide or "{evex}" in text or _EVEX.search(operands) is not None
    if mnemonic[0] == "k" or evex or _ONLY_EVEX.fullmatch(mnemonic):
        scalar = wide or mnemonic[0] == "k" or mnemonic.endswith(("ss", "sd", "si", "sil", "siq"))
        return _matching(_AVX512, mnemonic, "avx512f" if scalar else "avx512vl")
    if not ("%ymm" in operands or "%xmm" in operands):
        return "avx" if mnemonic.startswith(("vzero", "vldmx", "vstmx", "vcvt")) else None
    # AVX broadcasts from memory only.
    copies = mnemonic.startswith("vbroadcasts") and operands.startswith("%xmm")
    plain = "avx2" if copies or ("%ymm" in operands and AVX2.fullmatch(mnemonic)) else "avx"
    return "fma" if FUSED.fullmatch(mnemonic) else _matching(_VEX, mnemonic, plain)


@lru_cache(maxsize=4096)
def _by_mnemonic(mnemonic: str) -> str | None:
    return _matching(_BY_MNEMONIC, mnemonic, None)


def _matching(
    sets: Iterable[tuple[str, re.Pattern[str]]], mnemonic: str, otherwise: str | None
) -> str | None:
    """Return the name of the first instruction set that has the mnemonic, else ``otherwise``."""
    return next((name for name, pattern in sets if pattern.fullmatch(mnemonic)), otherwise)


_BY_MNEMONIC = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("bmi1", r"(?:andn|blsi|blsr|blsmsk)[lq]?"),
        ("bmi2", r"(?:mulx|rorx|shlx|shrx|sarx|pdep|pext|bzhi)[lq]?"),
        ("popcnt", r"popcnt[wlq]?"),
        ("lzcnt", r"lzcnt[wlq]?"),
        ("movbe", r"movbe[wlq]?"),
        ("aes", r"aes(?:enc|dec)(?:last)?|v?aesimc|v?aeskeygenassist"),
        ("pclmulqdq", r"pclmul\w+"),
        ("sha_ni", r"sha(?:1|256)\w+"),
        ("adx", r"ad[co]x[lq]?"),
        ("sse4a", r"extrq|insertq|movnts[sd]"),
        ("gfni", r"v?gf2p8\w+"),
        ("fsgsbase", r"(?:rd|wr)[fg]sbase[lq]?"),
        ("rtm", r"xbegin\w?|xend|xabort|xtest"),
        ("waitpkg", r"tpause|umwait|umonitor"),
        ("mwaitx", r"mwaitx|monitorx"),
        ("pku", r"(?:rd|wr)pkru"),
        ("tbm", r"(?:blc(?:fill|i|ic|msk|s)|bls(?:fill|ic)|t1mskc|tzmsk)[lq]?"),
        ("lwp", r"[ls]lwpcb|lwp(?:ins|val)[lq]?"),
        ("3dnow", r"pf\w+|pi2f[wd]|pavgusb|pmulhrw|pswapd|femms"),
        ("enqcmd", r"enqcmds?"),
        ("cmpccxadd", r"cmp\w+xadd"),
        ("raoint", r"a(?:add|and|or|xor)"),
        ("amx_int8", r"tdpb[su][su]d"),
        ("amx_bf16", r"tdpbf16ps"),
        ("amx_fp16", r"tdpfp16ps"),
        ("amx_tile", r"tile\w+|[ls][dt]tilecfg"),
        ("fma4", r"vfn?m(?:add|sub|addsub|subadd)[ps][sd]"),
        (
            "xop",
            r"vpermil2p[sd]|vpcom(?!press)\w+|vprot[bwdq]|vpsh[al][bwdq]|vph(?:add|sub)u?[bwd][wdq]"
            r"|vpmad?cs\w+|vpcmov|vpperm|vfrcz\w+",
        ),
        ("avx_ne_convert", r"vcvtne[eo]\w+2ps|vbcstne\w+"),
        ("avx_vnni_int8", r"vpdpb(?:ss|su|uu)ds?"),
        ("avx_vnni_int16", r"vpdpw(?:us|su|uu)ds?"),
        ("avx512er", r"v(?:exp2|rcp28|rsqrt28)[ps][sd]"),
        ("avx512pf", r"v(?:gather|scatter)pf\w+"),
        ("avx512_4fmaps", r"v4fn?madd\w+"),
        ("avx512_4vnniw", r"vp4dp\w+"),
        ("avx512_vp2intersect", r"vp2intersect[dq]"),
        ("avx512_vnni", r"vpdp(?:bus|wss)ds?"),
        ("avx512_bf16", r"vcvtne2?ps2bf16[xy]?|vdpbf16ps"),
        ("avx512_vpopcntdq", r"vpopcnt[dq]"),
        ("avx512_bitalg", r"vpopcnt[bw]|vpshufbitqmb"),
        ("avx512_vbmi2", r"vpcompress[bw]|vpexpand[bw]|vpsh[lr]dv?[wdq]"),
        ("avx512vbmi", r"vpermb|vperm[it]2b|vpmultishiftqb"),
        ("avx512ifma", r"vpmadd52\w+"),
        ("avx512cd", r"vpconflict[dq]|vplzcnt[dq]|vpbroadcastm\w+"),
        (
            "avx512_fp16",
            r"vmovw|v(?!cvtps2ph)\w+[ps]h|vcvtt?[ps]h2(?!ps$)\w+|vcvt(?!ps2ph)\w+2[ps]h[xyzlq]?|vcvtps2phx\w?"
            r"|vfpclassph[xyz]",
        ),
        (NOT_NAMED, r"\(bad\)"),
        *((name, name) for name in ("rdrand", "rdseed", "rdpid", "clzero", "clwb", "serialize")),
        *((name, name) for name in ("clflushopt", "movdiri", "movdir64b")),
    )
)
"""Instruction sets of mnemonics that no other set has, by their names in /proc/cpuinfo.

tzcnt is left out: older processors execute it as bsf, and compilers use it for all processors. So
are instructions of the operating system (xsave, vmcall) and those that older processors ignore.
"""
_AS_VEX = {
    "avx512_vnni": "avx_vnni",
    "avx512ifma": "avx_ifma",
    "avx512_bf16": "avx_ne_convert",
}
"""Instruction set of the same mnemonic without AVX-512's encoding."""
_EVEX = re.compile(r"%[xy]mm(?:1[6-9]|2\d|3[01])|%k[0-7]")
"""Registers and masks that only AVX-512 has."""
_ONLY_EVEX = re.compile(
    r"vpternlog[dq]|vmovdq[au](?:8|16|32|64)|vpsraq|vprol\w*|vpror\w*|vperm[it]2\w+|vp?compress\w+"
    r"|vp?expand\w+|vrndscale\w+|vgetexp\w+|vgetmant\w+|vscalef\w+|vpmov\w2m|vpmovm2\w|valign[dq]"
    r"|vrcp14\w+|vrsqrt14\w+|vrange\w+|vreduce\w+|vpconflict[dq]|vplzcnt[dq]|vfixupimm\w+|vpabsq"
    r"|vp(?:max|min)[su]q|vp(?:and|andn|or|xor)[dq]|vpmullq|vpmovu?s?(?:qd|qw|qb|dw|db|wb)|vps[rl][la]vw|vdbpsadbw"
    r"|vp(?:dpbus|dpws)ds?|vpopcnt[bwdq]|vpsh[lr]d\w+|vpmultishiftqb|vpshufbitqmb|vpmadd52\w+|vperm[bw]"
    r"|vcvt\w*(?:uqq|qq|udq|usi)\w*|vcvtne\w*bf16\w*|vdpbf16ps|v\w+[ps]h|vextract[fi](?:32|64)\w+"
    r"|vinsert[fi](?:32|64)\w+|vbroadcast[fi](?:32|64)\w+|vshuf[fi](?:32|64)\w+|vp?blendm\w+"
)
_AVX512 = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "avx512dq",
            r"vpmullq|k(?:test|add)w|vpinsr[dq]|vpextr[dq]|vrange\w+|vreduce\w+|vfpclass\w+|k\w+b|vpmov[dq]2m|vpmovm2[dq]"
            r"|v(?:and|andn|or|xor)p[sd]|vextract[fi](?:64x2|32x8)|vinsert[fi](?:64x2|32x8)"
            r"|vbroadcast[fi](?:32x2|32x8|64x2)|vcvt\w*(?:qq2|2u?qq)\w*",
        ),
        (
            "avx512bw",
            r"vmovdqu(?:8|16)|vpinsr[bw]|vpextr[bw]|vps[lr]ldq|k\w+[dq]|vdbpsadbw|vpmov[sz]xbw|vpmov[bw]2m|vpmovm2[bw]|vpmovu?s?wb|vpblendm[bw]"
            r"|vp(?:add|sub)u?s?[bw]|vp(?:max|min|cmp|abs|avg)\w*[bw]|vpshuf(?:b|hw|lw)|vpsadbw"
            r"|vpmadd(?:wd|ubsw)|vpmul[hl]\w*w|vpack\w+|vpunpck[hl](?:bw|wd)|vps[rl][la]v?w"
            r"|vptestn?m[bw]|vperm[it]?2?w|vpbroadcast[bw]|vpalignr",
        ),
    )
)
_VEX = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("f16c", r"vcvtph2ps|vcvtps2ph"),
        ("vaes", r"vaes(?:enc|dec)(?:last)?"),
        ("vpclmulqdq", r"vpclmul\w+"),
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
