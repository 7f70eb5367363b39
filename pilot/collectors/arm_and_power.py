"""Name the instruction sets that disassembled Arm and POWER instructions need.

Sources of the mnemonics: the Arm Architecture Reference Manual for A-profile (its features, by the
names of Linux' hwcaps), and the Power ISA 3.0 and 3.1 (its lists of instructions by version).
"""

from __future__ import annotations

import re
from functools import lru_cache

from berth.pilot.instruction_sets import NOT_NAMED

_UNDEFINED = re.compile(r"\.inst|udf\b|.*undefined")


def of_arm(text: str) -> str | None:
    """Return the instruction set beyond Armv8.0 that an instruction in GNU syntax needs, or None.

    ``NOT_NAMED``: objdump does not know the instruction.
    """
    mnemonic, _, operands = text.partition("\t")
    mnemonic, operands = mnemonic.strip(), operands.partition("//")[0]
    if _UNDEFINED.match(text):
        # Zeros are padding.
        return None if "0x00000000" in text or mnemonic == "udf" else NOT_NAMED
    if _SME.fullmatch(mnemonic) or _TILE.search(operands):
        return "sme"
    if _SCALABLE.search(operands) or _LENGTHS.fullmatch(mnemonic):
        return next((name for name, pattern in _SVE if pattern.fullmatch(text)), "sve")
    named = _arm_by_mnemonic(mnemonic)
    if named is not None:
        return named if named != "pmull" or ".1q" in operands else None
    return "fp16" if _FLOAT.fullmatch(mnemonic) and _HALF.search(operands) else None


@lru_cache(maxsize=4096)
def _arm_by_mnemonic(mnemonic: str) -> str | None:
    return next((name for name, pattern in _ARM if pattern.fullmatch(mnemonic)), None)


_SCALABLE = re.compile(r"\b(?:z(?:[12]?\d|3[01])|p(?:\d|1[0-5]))\b")
"""Registers that only SVE has."""
_TILE = re.compile(r"\bza\d*[hv]?\b")
_SME = re.compile(r"smstart|smstop|psel|revd|[su]clamp|adds[pv]l|rdsvl")
_LENGTHS = re.compile(r"addvl|addpl|rdvl|(?:[su]q)?(?:inc|dec)[bhwd]|cnt[bhwd]|cterm(?:eq|ne)")
"""Instructions about the length of SVE's registers, which may name none."""
_FLOAT = re.compile(r"f(?!cvtx?[ln]?2?$)\w+|[su]cvtf")
_HALF = re.compile(r"\bv\d+\.[48]h|\bh\d+")
_SVE = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("svebf16", r"bf\w+\t.*"),
        ("svei8mm", r"(?:(?:s|u|us)mmla|usdot|sudot)\t.*"),
        # Of these only the forms without predicate, those with one, and those with two registers.
        ("sve2", r"(?:mul|[su]mulh|mla|mls)\t(?!.*(?:\bp\d|#)).*|[us]q(?:add|subr?)\t.*\bp\d.*"),
        ("sve2", r"(?:tbl|ext|splice)\t.*\{z\d+\.\w, z.*|(?:ld|st)nt1\w+\t.*\[z.*"),
        (
            "sve2",
            r"(?:[us]?(?:addl|subl|abal|abdl|mull|addw|subw)(?:b|t|bt|tb)|[us](?:aba|hadd|rhadd|hsub"
            r"|hsubr)|sq(?:r?dml\w+|r?dmul\w+|rdcmlah|abs|neg|xtu?n[bt]|r?shr\w+|shlu)|[us]r?sra"
            r"|[us]q?r?sh(?:lr?|r|ll[bt])|uq(?:xtn|r?shrn)[bt]|r?(?:add|sub)hn[bt]|r?shrn[bt]|adcl[bt]"
            r"|sbcl[bt]|[us]ml[as]l[bt]|[us]adalp|suqadd|usqadd|cadd|sqcadd|cmla|cdot|addp"
            r"|[us](?:max|min)p|f(?:add|max|min|maxnm|minnm)p|bcax|bsl[12]?n?|nbsl|eor3|eorbt|eortb|xar"
            r"|bext|bdep|bgrp|histcnt|histseg|n?match|pmull?[bt]?|sl[i]|sri|tbx|fcvtlt|fcvtx?nt|fcvtx"
            r"|flogb|fml[as]l[bt]|urecpe|ursqrte|while(?:g[et]|h[is]|rw|wr)|aes\w+|sm4e\w*|rax1)\t.*",
        ),
    )
)
"""Extensions of SVE, by mnemonic and operands."""
_ARM = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "lse",
            r"(?:casp?|swp|(?:ld|st)(?:add|clr|eor|set|[su]max|[su]min))(?:a|l|al)?[bh]?",
        ),
        ("crc32", r"crc32c?[bhwx]"),
        ("rdm", r"sqrdml[as]h"),
        ("dotprod", r"[su]dot"),
        ("i8mm", r"(?:s|u|us)mmla|usdot|sudot"),
        ("bf16", r"bf(?:dot|mmla|mlal[bt]|cvtn?2?)"),
        ("asimdfhm", r"fml[as]l2?"),
        ("aes", r"aes(?:e|d|mc|imc)"),
        ("pmull", r"pmull2?"),
        ("sha1", r"sha1\w+"),
        ("sha2", r"sha256\w+"),
        ("sha512", r"sha512\w+"),
        ("sha3", r"eor3|rax1|xar|bcax"),
        ("sm3", r"sm3\w+"),
        ("sm4", r"sm4\w+"),
        ("rcpc", r"ldapr[bh]?"),
        ("rcpc2", r"(?:ldapu|stlu)r\w*"),
        ("jscvt", r"fjcvtzs"),
        ("fcma", r"fcadd|fcmla"),
        ("frint", r"frint(?:32|64)[xz]"),
        ("flagm", r"cfinv|rmif|setf(?:8|16)"),
        ("paca", r"reta[ab]|bl?ra[ab]z?|ldra[ab]|pacga|(?:pac|aut)[id]z?[ab]"),
        ("mte", r"irg|gmi|stz?2?g|stgp|ldg|addg|subg|subps?"),
        ("sb", r"sb"),
        ("mops", r"(?:cpyf?|setg?)[pme][rwt]*n?"),
    )
)
"""Instruction sets of mnemonics with other registers. Those of the hint space (paciasp, bti), which
older processors ignore, are left out."""


def of_power(text: str) -> str | None:
    """Return the level or instruction set beyond POWER8 that an instruction needs, or None.

    What objdump does not know is None, too: code on POWER has tables between its functions.
    """
    return _power_by_mnemonic(text.partition("\t")[0].partition(" ")[0].rstrip(".+-"))


@lru_cache(maxsize=4096)
def _power_by_mnemonic(mnemonic: str) -> str | None:
    return next((name for name, pattern in _POWER if pattern.fullmatch(mnemonic)), None)


_POWER = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("mma", r"p?m?xv[a-z]+\d+ger\w*|xxm[tf]acc|xxsetaccz"),
        (
            "power10",
            r"p(?:addi|subi|l[ai]|nop|l[bhwdfqx]\w+|st\w+)|[ls]t?xvpx?|xxeval|xxsplti(?:w|dp|32dx)"
            r"|xxblendv\w|xxpermx|xxgenpcv\wm|v(?:div|mod|dive)[su][wdq]|vmulh[su][wd]|vmulld|br[hwd]"
            r"|setn?bcr?|(?:l|st)xvr[bhwd]x|lxvkq|xvtlsbb|v(?:ext|ins)\w+[lr][vx]|vs[lr]dbi|hash\w+"
            r"|cnt[lt]zdm|cfuged|p(?:dep|ext)d|vclr[lr]b|vstri[bh][lr]|v(?:cfuged|pdepd|pextd|cnt\wzdm)"
            r"|vexpand\wm|vextract\wm|mtvsr[bhwdq]mi?|vcntmb[bhwd]|vgnb|xvcvbf16\w+|xvcvspbf16",
        ),
        (
            "power9",
            r"x[sv]\w+qpo?|lxvx|lxv|stxvx?|(?:l|st)xv(?:b16|h8)x|(?:l|st)xvll?|(?:l|st)xs(?:d|sp)"
            r"|lxsi[bh]zx|stxsi[bh]x|mtvsrdd|mtvsrws|mfvsrld|maddld|maddhdu?|mod[su][dw]|cnttz[dw]|setb"
            r"|darn|extswsli|cmprb|cmpeqb|addpcis|lnia|subpcis|xxspltib|xxextractuw|xxinsertw"
            r"|xxbr[hwdq]|xxpermr?|x[sv]x(?:exp|sig)[ds]p|x[sv]iexp[ds]p|x[sv]tstdc[ds]p|xvcvsphp|xvcvhpsp"
            r"|xscvdphp|xscvhpdp|xscmp(?:eq|gt|ge|exp)dp|xs(?:max|min)[cj]dp|vabsdu[bhw]|vcmpnez?[bhw]"
            r"|vextu[bhw][lr]x|vextract(?:u[bhw]|d)|vinsert[bhwd]|vctz[bhwd]|vprtyb[wdq]|vpermr|vneg[wd]"
            r"|vexts[bhw]2[wd]|vrl[wd](?:mi|nm)|vs[lr]v|vmsumudm|vbpermd|vmul10\w+|v[cl]{2}zlsbb|vctzlsbb",
        ),
    )
)
