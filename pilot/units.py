"""Parse and format numbers with units. Units of bytes are binary (1 GiB = 2**30 bytes)."""

from __future__ import annotations

import re
import time

from berth.pilot.errors import UsageError

_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,30})?"
_SIZE = re.compile(rf"\s*({_NUMBER})\s*([KMGTP]?)(?:i?B)?\s*", re.IGNORECASE)

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(rf"\s*({_NUMBER})\s*([smhd])\s*")
_MOST_DIGITS = 20
"""Number of digits of 2**64. Longer texts are refused before Python's int() could raise."""
_CLOCK = re.compile(r"\s*(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-9]{2})(?::([0-9]{2}))?\s*")

J_PER_KWH = 3.6e6
MOST_SHOWN_FACTOR = 100.0
"""Where an end of an interval is further than this factor from its middle, the number is shown as
"not known"."""


def parse_bytes(text: str) -> int:
    """Return the bytes in a text such as ``"16G"``, ``"1.5 GiB"`` or ``"4096"``.

    Raises UsageError for other texts.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a memory size", hint="write for example 512M or 16G")
    return int(float(match.group(1)) * _BINARY[match.group(2).upper()])


def parse_duration_s(text: str) -> float:
    """Return the seconds in a text such as ``"90s"``, ``"30m"``, ``"2d"`` or ``"2-12:00:00"``.

    ``D-H:M`` is days, hours and minutes. ``A:B`` is refused as ambiguous: Slurm takes it as
    minutes and seconds, many people as hours and minutes. Raises ValueError with a sentence.
    """
    simple = _DURATION.fullmatch(text)
    if simple is not None:
        return float(simple.group(1)) * _UNIT_S[simple.group(2)]
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise ValueError("is not a duration; write for example 90s, 30m, 12h, 2d or 2-12:00:00")
    days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
    if clock[1] is None and clock[4] is None:
        both = 60 * hours + minutes
        raise ValueError(
            f"may be minutes and seconds, or hours and minutes; write {both}s or {both}m"
        )
    return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds


def whole_number(text: str, most: int = 2**64) -> int | None:
    """Return the whole number in a text of 1 to 20 ASCII digits.

    None for other texts, and for numbers above ``most``.
    """
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= most else None


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: ``"1 node"``, ``"2 nodes"``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def format_bytes(count: float) -> str:
    """Return a number of bytes as text with a binary unit: ``"16.0 GiB"`` for 17179869184."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def format_seconds(seconds: float) -> str:
    """Return a duration as text with three digits: ``"12.3 ms"``, ``"4.56 s"``, ``"1h 02m"``."""
    magnitude = abs(seconds)
    if magnitude < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    if magnitude < 1:
        return f"{seconds * 1e3:.3g} ms"
    if magnitude < 120:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if magnitude < 7200:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def format_elapsed(seconds: float) -> str:
    """Return a job's run time, in whole seconds, as text; 0 becomes ``under 1 s``."""
    return "under 1 s" if seconds == 0 else format_seconds(seconds)


def format_ended(seconds: float) -> str:
    """Return how long after its start a job ended, as text: ``after 7 s``, ``within 1 s`` for 0."""
    return "within 1 s" if seconds == 0 else f"after {format_seconds(seconds)}"


def format_moment(unix_s: float) -> str:
    """Return a Unix time as text in local time with its zone: ``"2026-11-29 05:17 UTC"``."""
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(unix_s))


def format_count(value: float) -> str:
    """Return a number as text with an SI prefix: ``"1.23 G"`` for 1.23e9."""
    for factor, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{prefix}"
    return f"{value:.3g}"
