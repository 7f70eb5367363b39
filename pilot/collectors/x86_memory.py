"""Which x86 instructions read and write memory, from their AT&T text: one count an operand.

Valgrind's own counts split some vector operands into lanes (a fused multiply-add with a 256-bit
memory operand counts four reads); the text of the instruction does not.
"""

from __future__ import annotations

import re

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
    """(reads, writes) of one instruction; the stack accesses of calls, pushes and pops count."""
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
        # movsb (%rsi),(%rdi) copies; movsbl (%rax),%ecx is spelt with two suffixes.
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
    """Operands at commas that are not within parentheses; trailing symbols and masks dropped."""
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
