"""A time as text that a language model can write, and back.

Two notations. ``scientific`` is microseconds as ``2.031e1``: what a pre-trained model has seen
most. ``logarithm`` is four digits, thousandths of the decimal logarithm of nanoseconds: ``4308``;
each digit narrows the time by the same factor, none carries over at a power of ten.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum

_SCIENTIFIC = re.compile(r"(\d)\.(\d{3})e(-?\d{1,2})", re.ASCII)
_LOGARITHM = re.compile(r"\d{4,5}", re.ASCII)
_MICROSECOND, _NANOSECOND = 1e-6, 1e-9


class Notation(StrEnum):
    """How a time is written."""

    SCIENTIFIC = "scientific"
    LOGARITHM = "logarithm"


def write(seconds: float, notation: Notation) -> str:
    """The text of a time; right within 0.05 % (scientific) or 0.12 % (logarithm).

    Raises ValueError for a time that is not positive and finite, or under 1 us in ``logarithm``.
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{seconds} is not a time")
    if notation is Notation.SCIENTIFIC:
        mantissa, exponent = f"{seconds / _MICROSECOND:.3e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if seconds < _MICROSECOND:
        raise ValueError(f"{seconds} s is under a microsecond: write it as scientific")
    return f"{round(1000 * math.log10(seconds / _NANOSECOND)):04d}"


def read(text: str, notation: Notation) -> float | None:
    """Seconds; None where ``text`` is anything else than one number in this notation.

    Blanks do not count: tokenizers that split words put them between digits.
    """
    packed = "".join(text.split())
    if notation is Notation.SCIENTIFIC:
        found = _SCIENTIFIC.fullmatch(packed)
        return float(packed) * _MICROSECOND if found and found[1] != "0" else None
    return 10 ** (int(packed) / 1000) * _NANOSECOND if _LOGARITHM.fullmatch(packed) else None
