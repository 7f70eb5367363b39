"""The recommended site file: the old one with tuned keys changed, each with why."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from berth.plugin.site.edit import Setting, with_settings
from berth.policies.settings import PolicySettings
from berth.policies.tuning.parameters import LAYOUT, PARAMETERS, Values, values_of

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
    """Those of the policy, without what the site has already."""
    now = values_of(today, PARAMETERS.values())
    return {
        name: value
        for name, value in rounded(values).items()
        if not PARAMETERS[name].sliced and (name not in now or _differs(now[name], value))
    }


def slices_text(values: Values) -> str:
    """What a tune says about slices: how GPUs are to be cut, and ``[trigger]`` of the settings of
    slices; empty where it says nothing."""
    of_slices = {n: v for n, v in rounded(values).items() if PARAMETERS[n].sliced}
    lines = []
    if LAYOUT in of_slices:
        lines.append(f"# each GPU at first: {of_slices.pop(LAYOUT)}")
    if of_slices:
        lines.append("[trigger]")
    for name, value in of_slices.items():
        word = {"yes": "true", "no": "false"}.get(str(value), f"{value}")
        lines.append(f"{name.partition('.')[2]} = {word}  # tuned: {PARAMETERS[name].why}")
    return "".join(f"{line}\n" for line in lines)


def tuned_text(text: str, values: Values, today: PolicySettings, path: Path) -> str:
    """The site file's text with these values; all else stays as it is.

    Raises UsageError, with what to write by hand, where it is written too unusually.
    """
    settings = []
    for name, value in values.items():
        table, _, key = f"{POLICY}.{name}".rpartition(".")
        settings.append(Setting(table, key, value, _comment(name, today)))
    return with_settings(text, settings, path)


def unified(old: str, new: str, name: str) -> str:
    """The difference as ``patch`` takes it; empty where there is none."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _differs(now: float | str, value: float | str) -> bool:
    if isinstance(now, str) or isinstance(value, str):
        return now != value
    return abs(value - now) > 10.0**-_DIGITS * max(abs(now), 1e-9)


def _comment(name: str, today: PolicySettings) -> str:
    was = values_of(today, PARAMETERS.values()).get(name)
    before = "" if was is None else f"was {json.dumps(was)}; "
    return f"tuned: {before}{PARAMETERS[name].why}"
