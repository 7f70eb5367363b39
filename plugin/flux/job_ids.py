"""Ids of Flux's jobs in each form that it writes (RFC 19): as numbers."""

from __future__ import annotations

import re

from berth.pilot.units import whole_number

_F58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_DOTTED = re.compile(r"(?:job\.)?((?:[0-9a-fA-F]{4}\.){3}[0-9a-fA-F]{4})")
_LARGEST = 2**64


def job_number(text: str) -> int | None:
    """Of ``42``, ``ƒ2oMJKr3``, ``f2oMJKr3``, ``0x2a`` or ``0000.0000.0000.002a``; None: no id."""
    found: int | None = None
    dotted = _DOTTED.fullmatch(text)
    if dotted is not None:
        found = int(dotted[1].replace(".", ""), 16)
    elif _HEX.fullmatch(text):
        found = int(text, 16)
    elif text.isdecimal():
        found = whole_number(text)
    elif text[:1] in ("ƒ", "f") and 1 < len(text) <= 13 and all(c in _F58 for c in text[1:]):
        found = 0
        for letter in text[1:]:
            found = found * len(_F58) + _F58.index(letter)
    return found if found is not None and found < _LARGEST else None
