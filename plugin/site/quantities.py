"""Quantities as people write them in the site file: the unit is in the value, never assumed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from berth.pilot.errors import UsageError
from berth.pilot.units import parse_bytes, parse_duration_s


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
