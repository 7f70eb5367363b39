"""Stamps of jobs, read without Berth's own code: what they say, what they give back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote


def words_of(stamp: str | None) -> dict[str, str]:
    """``key=value`` of the last stamp in a text; empty where there is none."""
    _, _, text = (stamp or "").rpartition("berth/1 ")
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def problem_of_was(was: str, before: Mapping[str, Any], changed: Iterable[str]) -> str | None:
    """Why ``was=`` does not give back the changed fields; None: it does.

    Memory as it was asked for stands there beside the fields, as ``memory_...``.
    """
    left = set(changed)
    for part in filter(None, was.split(";")):
        key, _, value = part.partition(":")
        if key.startswith("memory_"):
            continue
        found = before.get(key)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        said = None if value == "-" else unquote(value, encoding="latin-1")
        if said != (None if found is None else str(found)):
            return f"{key} was {found}, its stamp says {said}"
        left.discard(key)
    return f"nothing says what {sorted(left)} was" if left else None
