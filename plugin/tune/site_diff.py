"""The recommended site file: the old one with tuned keys changed line by line, each with why."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.documents import validate
from berth.pilot.errors import UsageError
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.edit import with_line
from berth.plugin.site.load import build_site
from berth.policies.settings import PolicySettings
from berth.policies.tuning.parameters import PARAMETERS, Values, values_of

POLICY = "policy"
_DIGITS = 3
"""Significant ones of a written number: a tune knows no more."""


def rounded(values: Values) -> dict[str, float | str]:
    """Numbers as they are written."""
    return {
        name: value if isinstance(value, str) else float(f"{value:.{_DIGITS}g}")
        for name, value in values.items()
    }


def changed_only(values: Values, today: PolicySettings) -> dict[str, float | str]:
    """Without what the site has already."""
    now = values_of(today, PARAMETERS.values())
    return {
        name: value
        for name, value in rounded(values).items()
        if name not in now or _differs(now[name], value)
    }


def tuned_text(text: str, values: Values, today: PolicySettings, path: Path) -> str:
    """The site file's text with these values; all else stays as it is.

    Raises UsageError, with the lines to write by hand, where it is written too unusually.
    """
    lines = text.splitlines()
    for name, value in values.items():
        head, _, key = f"{POLICY}.{name}".rpartition(".")
        lines = with_line(lines, head, key, _line(name, key, value, today))
    changed = "\n".join(lines) + "\n"
    try:
        after = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        after = {}
    if after != _expected(tomllib.loads(text), values):
        by_hand = "; ".join(f"{POLICY}.{n} = {json.dumps(v)}" for n, v in values.items())
        raise UsageError(
            "the site file is written in a way that cannot be changed line by line",
            hint=f"write there yourself: {by_hand}",
        )
    build_site(validate(after, SiteDocument, source=path), path)
    return changed


def unified(old: str, new: str, name: str) -> str:
    """The difference as ``patch`` takes it; empty where there is none."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _differs(now: float | str, value: float | str) -> bool:
    if isinstance(now, str) or isinstance(value, str):
        return now != value
    return abs(value - now) > 10.0**-_DIGITS * max(abs(now), 1e-9)


def _line(name: str, key: str, value: float | str, today: PolicySettings) -> str:
    was = values_of(today, PARAMETERS.values()).get(name)
    before = "" if was is None else f"was {json.dumps(was)}; "
    return f"{key} = {json.dumps(value)}  # tuned: {before}{PARAMETERS[name].why}"


def _expected(before: Mapping[str, Any], values: Values) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(before, default=str))
    for name, value in values.items():
        place = found.setdefault(POLICY, {})
        *tables, key = name.split(".")
        for table in tables:
            place = place.setdefault(table, {})
        place[key] = value
    return found
