"""Names of instruction sets and levels, what each includes, and other spellings of them.

Pilot, benchmark, platforms, site file and ``berth site init`` all use these names: those of Linux'
``/proc/cpuinfo``, except for a few clearer names (``lzcnt``, ``neon``). A level is a name for a
group of instruction sets: x86-64-v1 to v4 (System V psABI for AMD64, section 3.1.1), Arm's armv8 to
armv9 (mandatory features in the Arm Architecture Reference Manual), IBM's power8 to power10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache

from berth.pilot.host import cpu_info

BASELINE = "x86-64-v1"
NOT_NAMED = "unknown"
"""In the place of instruction sets that a program may need and the pilot cannot name. No place is
known to have it (:func:`has`), so places rank last where the program did not run."""
_LEVELS: Mapping[str, tuple[str, ...]] = {
    BASELINE: ("fpu", "cx8", "cmov", "mmx", "fxsr", "sse", "sse2"),
    "x86-64-v2": (BASELINE, "cx16", "lahf_lm", "popcnt", "sse3", "sse4_1", "sse4_2", "ssse3"),
    "x86-64-v3": (
        "x86-64-v2", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave",
    ),
    "x86-64-v4": ("x86-64-v3", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "armv8": ("neon",),
    "armv8.1": ("armv8", "lse", "rdm", "crc32"),
    "armv8.2": ("armv8.1", "dcpop"),
    "armv8.3": ("armv8.2", "fcma", "jscvt", "rcpc"),
    "armv8.4": ("armv8.3", "dotprod", "flagm", "rcpc2"),
    "armv8.5": ("armv8.4", "sb", "frint"),
    "armv8.6": ("armv8.5", "bf16", "i8mm"),
    "armv9": ("armv8.5", "sve", "sve2"),
    "power8": ("altivec", "vsx"),
    "power9": ("power8", "float128"),
    "power10": ("power9", "mma"),
}  # fmt: skip
"""The next lower level and the instruction sets that a level adds, by level."""
_IMPLIED: Mapping[str, tuple[str, ...]] = {
    "sse4_2": ("sse4_1",),
    "sse4_1": ("ssse3",),
    "ssse3": ("sse3",),
    "avx": ("sse4_2", "xsave"),
    "avx2": ("avx",),
    "f16c": ("avx",),
    "fma": ("avx",),
    "avx512f": ("avx2", "fma", "f16c"),
    "sve2": ("sve",),
    "sve": ("neon",),
    "svei8mm": ("sve", "i8mm"),
    "svebf16": ("sve", "bf16"),
    "mma": ("vsx",),
    "vsx": ("altivec",),
    "avx_vnni": ("avx2",),
    "vaes": ("avx", "aes"),
    "vpclmulqdq": ("avx", "pclmulqdq"),
    "avx512_fp16": ("avx512bw",),
    "avx512_bf16": ("avx512bw",),
}
"""Other sets that an instruction set implies; all parts of AVX-512 imply avx512f, too."""
_VECTOR_PARTS = frozenset(
    [
        "avx512ifma", "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg",
        "avx512_vpopcntdq", "avx512_bf16", "avx512_fp16", "avx512er", "avx512pf",
        "avx512_vp2intersect", "avx512_4vnniw", "avx512_4fmaps",
        "avx_vnni", "avx_ifma", "avx_vnni_int8", "avx_vnni_int16", "avx_ne_convert", "fma4",
        "xop", "sve", "sve2", "bf16", "i8mm", "dotprod", "fp16", "asimdfhm", "mma",
    ]
)  # fmt: skip
"""Instruction sets outside the levels that compilers use on their own, for example for
``-march=native``."""
_OTHERS = frozenset(
    [
        "aes", "pclmulqdq", "vaes", "vpclmulqdq", "gfni", "sha_ni", "adx", "rdrand", "rdseed",
        "sse4a", "tbm", "lwp", "3dnowprefetch", "clflushopt", "clwb", "clzero", "fsgsbase", "pku",
        "movdiri", "movdir64b", "serialize", "waitpkg", "rdpid", "rtm", "hle", "xsaveopt",
        "xsavec", "xsaves", "prefetchwt1", "cldemote", "wbnoinvd", "mwaitx", "amx_tile",
        "amx_int8", "amx_bf16", "amx_fp16", "fp", "sha1", "sha2", "sha3", "sha512", "sm3", "sm4",
        "pmull", "sveaes", "svebitperm", "svebf16", "svei8mm", "sme", "sme2", "rng", "dcpodp",
        "ssbs", "bti", "paca", "pacg", "fphp", "dit", "uscat", "mops", "3dnow", "cmpccxadd",
        "raoint", "enqcmd", "mte",
    ]
)  # fmt: skip
_ALIASES: Mapping[str, str] = {
    # /proc/cpuinfo
    "pni": "sse3", "abm": "lzcnt", "asimd": "neon", "atomics": "lse", "asimdrdm": "rdm",
    "asimddp": "dotprod", "asimdhp": "fp16", "lrcpc": "rcpc", "ilrcpc": "rcpc2",
    # gcc's and LLVM's options, and what people write
    "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sse4": "sse4_2", "bmi": "bmi1", "cmpxchg16b": "cx16",
    "cmpxchg8b": "cx8", "sahf": "lahf_lm", "fma3": "fma", "sha": "sha_ni", "pclmul": "pclmulqdq",
    "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16",
    "avx512bitalg": "avx512_bitalg", "avx512vbmi2": "avx512_vbmi2", "avx512_ifma": "avx512ifma",
    "avx512vpopcntdq": "avx512_vpopcntdq", "avx512_vbmi": "avx512vbmi", "avxvnni": "avx_vnni",
    "avx512": "avx512f", "amx": "amx_tile", "osxsave": "xsave", "prfchw": "3dnowprefetch",
    "rdrnd": "rdrand", "simd": "neon", "advsimd": "neon", "dotproduct": "dotprod",
    "x86-64": BASELINE, "armv8-a": "armv8", "armv8.0": "armv8", "armv9-a": "armv9",
    "armv9.0": "armv9",
}  # fmt: skip
_MARKS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}), "x86-64-v4"),
    (frozenset({"avx2"}), "x86-64-v3"),
    (frozenset({"sse4_2"}), "x86-64-v2"),
)
"""(instruction sets, level): a processor with the sets is assumed to have the whole level. Every
server processor with AVX2 (Haswell, Excavator, Zen and later) has all of x86-64-v3, and every one
with SSE4.2 (Nehalem, Bulldozer and later) all of x86-64-v2."""
_PARTS_OF_LEVELS = frozenset(name for level, parts in _LEVELS.items() for name in (level, *parts))
_PARTS_OF_X86 = frozenset(
    name for level, parts in _LEVELS.items() if level.startswith("x86") for name in (level, *parts)
)
KNOWN = _PARTS_OF_LEVELS | frozenset(_IMPLIED) | _VECTOR_PARTS | _OTHERS
"""All names of instruction sets and levels."""


class Has(Enum):
    """Whether a platform has an instruction set: yes, no or unknown."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def canonical(name: str) -> str:
    """Return the spelling of ``name`` used in Berth; an unknown name in lower case."""
    small = name.strip().lower()
    if small in KNOWN:
        return small
    spelled = _ALIASES.get(small) or _ALIASES.get(small.replace("-", "_"))
    if spelled is not None:
        return spelled
    level = re.fullmatch(r"x86[-_]64[-_]?v([1-4])", small)
    if level is not None:
        return f"x86-64-v{level.group(1)}"
    version = re.fullmatch(r"(armv[89]\.\d)-a", small)
    return version.group(1) if version is not None else small.replace("-", "_")


def unknown(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are no known instruction set or level, unchanged."""
    return tuple(name for name in names if canonical(name) not in KNOWN)


def expanded(names: Iterable[str]) -> frozenset[str]:
    """Return ``names`` with the parts of levels and all implied instruction sets."""
    return _expanded(frozenset(canonical(name) for name in names))


@lru_cache(maxsize=1024)
def _expanded(names: frozenset[str]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        waiting += _LEVELS.get(name, ())
        waiting += _IMPLIED.get(name, ())
        if name.startswith("avx512") and name != "avx512f":
            waiting.append("avx512f")
    return frozenset(reached)


def compact(names: Iterable[str]) -> tuple[str, ...]:
    """Return ``names`` with complete levels in place of their parts; levels first, then sorted."""
    every = set(expanded(names))
    for level, parts in _LEVELS.items():  # lower ones first
        if every.issuperset(parts):
            every.add(level)
    implied = {part for name in every for part in _expanded(frozenset({name})) - {name}}
    own = every - implied
    return (*sorted(own & set(_LEVELS)), *sorted(own - set(_LEVELS)))


def needed(names: Iterable[str]) -> tuple[str, ...]:
    """Return ``names`` in Berth's spelling without redundant names, sorted.

    Redundant are names that the baseline (x86-64-v1, armv8, power8) or another name includes.
    """
    own = frozenset(canonical(name) for name in names)
    implied = {part for name in own for part in _expanded(frozenset({name})) - {name}}
    return tuple(sorted(own - implied - _expanded(frozenset({BASELINE, "armv8", "power8"}))))


def described(need: str) -> str:
    """Return the name of a needed instruction set for a sentence."""
    return "instructions that the pilot could not name" if need == NOT_NAMED else need


@lru_cache(maxsize=4096)
def has(place: tuple[str, ...], need: str) -> Has:
    """Return whether a platform whose instruction sets are ``place`` has the set ``need``.

    If ``place`` names a level, instruction sets of higher levels, and those outside the levels that
    compilers use (such as parts of AVX-512), count as absent unless ``place`` names them. If it
    names no level, the level is inferred from the names, and instruction sets beyond that level are
    UNKNOWN. If ``place`` is empty, the result is UNKNOWN.
    """
    name = canonical(need)
    own = expanded(place)
    if not own:
        return Has.UNKNOWN
    names_level = any(level in own for level in _LEVELS)
    if not names_level:
        own = _expanded(own | {level for mark, level in _MARKS if mark <= own})
    wanted = _expanded(frozenset({name}))
    if wanted <= own:
        return Has.YES
    if name not in KNOWN:
        return Has.UNKNOWN
    missing = wanted - own
    lacking = missing & (_PARTS_OF_LEVELS if names_level else _PARTS_OF_X86)
    if names_level and (lacking or missing & _VECTOR_PARTS):
        return Has.NO
    if not lacking:
        return Has.UNKNOWN
    # Users often write avx512f alone and mean all of AVX-512.
    named = "avx512f" in own and all(part.startswith(("avx512", "x86-64-v4")) for part in lacking)
    return Has.UNKNOWN if named else Has.NO


def of_this_machine() -> tuple[str, ...]:
    """Return this machine's level and further instruction sets; empty where Linux lists none."""
    return listed_in(cpu_info())


def listed_in(cpu_info_lines: Iterable[str]) -> tuple[str, ...]:
    """Return the level and further instruction sets in the lines of a ``/proc/cpuinfo``; empty
    where it lists none.
    """
    lines = (line.lower() for line in cpu_info_lines)
    about = (line for line in lines if line.startswith(("flags", "features", "cpu\t")))
    # POWER has no list, but a name: POWER9 (architected), altivec supported.
    words = next(about, "").partition(":")[2].replace(",", " ").split()
    return compact(name for word in words if (name := canonical(word)) in KNOWN)
