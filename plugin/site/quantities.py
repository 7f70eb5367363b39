"""Quantities as people write them in the site file: the unit is in the value, never assumed."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from berth.pilot.errors import UsageError
from berth.pilot.units import parse_bytes

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIMPLE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*")
_CLOCK = re.compile(r"\s*(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?\s*")


def parse_duration_s(text: str) -> float:
    """``"90s"``, ``"30m"``, ``"12h"``, ``"2d"``, ``"12:00:00"`` or ``"2-00:00:00"`` in seconds.

    Two clock numbers are hours and minutes. Raises ValueError with a sentence.
    """
    simple = _SIMPLE.fullmatch(text)
    if simple is not None:
        return float(simple.group(1)) * _UNIT_S[simple.group(2)]
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise ValueError("is not a duration; write for example 90s, 30m, 12h, 2d or 2-12:00:00")
    days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
    return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration_s(value)
    raise ValueError('needs a duration with its unit, in quotes, for example "12h"')


def _memory(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError('needs a memory size with its unit, in quotes, for example "128G"')
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None


Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0)]
"""Seconds, read from a string with a unit."""
Memory = Annotated[int, BeforeValidator(_memory), Field(gt=0)]
"""Bytes, read from a string with a unit (binary: 1G = 2**30)."""
