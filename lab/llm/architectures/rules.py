"""Find the condition on a configuration's keys, and on a layer's index, that explains where
something was observed.

Candidates are short expressions (``layer_types[i] == 'sliding_attention'``, ``i >=
first_k_dense_replace``); a rule is one that agrees with every observation, or two joined.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Booleans = NDArray[np.bool_]
_LARGEST_INDEX = 512
"""Largest value of a key that can count or name layers."""
_MANY_VALUES = 12
_MOST_JOINED = 5
_DOT = re.compile(r"(?<=[A-Za-z_])\.(?=[A-Za-z_])")


class Rules:
    """Candidate conditions, evaluated once at all points of a family."""

    def __init__(self, points: Sequence[Mapping[str, Any]], *, layered: bool) -> None:
        self.points = points
        self._layered = layered
        names = _conditions(points, layered=layered)
        spaces = [{k.replace(".", "__"): v for k, v in point.items()} for point in points]
        rows: dict[bytes, str] = {}
        for name in names:
            row = _evaluated(name, spaces)
            if row is not None:
                rows.setdefault(row.tobytes(), name)
        self._names: list[str] = list(rows.values())
        self._rows = np.array([np.frombuffer(row, dtype=np.bool_) for row in rows])

    def condition(self, wanted: Booleans) -> str | None:
        """Return the shortest condition that is true exactly where ``wanted`` is; an empty text
        if everywhere; None: no condition is."""
        if wanted.all():
            return ""
        if not len(self._rows):
            return None
        same = np.flatnonzero((self._rows == wanted).all(axis=1))
        if same.size:
            return str(self._names[same[0]])
        text = self._joined(wanted, "and") or self._joined(wanted, "or") or self._several(wanted)
        if text is None:
            opposite = self._several(~wanted)
            text = None if opposite is None else f"not ({opposite})"
        return text or self._within(wanted)

    def _within(self, wanted: Booleans) -> str | None:
        """Return a condition joined with one of two others."""
        for outer in np.flatnonzero(self._rows[:, wanted].all(axis=1)):
            rows = self._rows[:, self._rows[outer]]
            goal = wanted[self._rows[outer]]
            options = np.flatnonzero(~rows[:, ~goal].any(axis=1) & rows[:, goal].any(axis=1))
            reached = rows[options][:, goal]
            for n, first in enumerate(options):
                match = np.flatnonzero((reached[n] | reached[n + 1 :]).all(axis=1))
                if match.size:
                    either = f"{self._names[first]} or {self._names[options[n + 1 + match[0]]]}"
                    return f"{_part(self._names[outer])} and ({either})"
        return None

    def _joined(self, wanted: Booleans, word: str) -> str | None:
        rows, goal = (self._rows, wanted) if word == "and" else (~self._rows, ~wanted)
        # Each part of a conjunction is true wherever the whole is.
        usable = np.flatnonzero(rows[:, goal].all(axis=1))
        kept = rows[usable][:, ~goal]
        for n, first in enumerate(usable):
            match = np.flatnonzero(~(kept[n] & kept[n + 1 :]).any(axis=1))
            if match.size:
                second = usable[n + 1 + match[0]]
                return f"{_part(self._names[first])} {word} {_part(self._names[second])}"
        return None

    def _several(self, wanted: Booleans) -> str | None:
        """Return a conjunction of up to five conditions, each chosen for what it rules out."""
        usable = np.flatnonzero(self._rows[:, wanted].all(axis=1))
        kept = self._rows[usable][:, ~wanted]
        chosen: list[int] = []
        left = np.ones(kept.shape[1], dtype=bool)
        while left.any() and usable.size:
            ruled_out = (~kept[:, left]).sum(axis=1)
            best = int(ruled_out.argmax())
            if not ruled_out[best] or len(chosen) == _MOST_JOINED:
                return None
            chosen.append(best)
            left &= kept[best]
        if left.any():
            return None
        for n in list(chosen):  # those that later ones made needless
            others = [c for c in chosen if c != n]
            if others and not kept[others].all(axis=0).any():
                chosen = others
        return " and ".join(_part(self._names[usable[c]]) for c in sorted(chosen))


def _part(name: str) -> str:
    return f"({name})" if " or " in name or " and " in name else name


def _before(items: Sequence[Any], i: int) -> int:
    """Return how many items like the i-th are before it."""
    return items[:i].count(items[i])


def _evaluated(name: str, spaces: Sequence[dict[str, Any]]) -> Booleans | None:
    code = compile(_DOT.sub("__", name), "condition", "eval")
    try:
        values = [bool(eval(code, {"len": len, "before": _before}, space)) for space in spaces]  # noqa: S307 - our text  # nosec B307
    except (ArithmeticError, LookupError, NameError, TypeError):
        return None
    return np.array(values, dtype=np.bool_)


def _conditions(  # noqa: PLR0912 - a case for each kind of value
    points: Sequence[Mapping[str, Any]], *, layered: bool
) -> list[str]:
    """Return candidate conditions, the likeliest first."""
    first = points[0]
    keys = [k for k in first if k != "i" and all(k in p for p in points)]
    switches, numbers, lists, texts, autos = [], [], [], [], []
    for key in keys:
        values = [p[key] for p in points]
        kinds = {type(v) for v in values} - {type(None)}
        if kinds & {dict}:
            continue
        if str in kinds and kinds <= {str, int} and "auto" in values:
            autos.append(key)
        elif kinds == {str} or kinds == {str, type(None)}:
            texts.append(key)
        elif kinds and kinds <= {list}:
            lists.append(key)
        elif kinds <= {bool}:
            switches.append(key)
        elif kinds <= {int, float, bool}:
            numbers.append(key)
    candidates = [text for key in autos for text in (f"{key} == 'auto'", f"{key} != 'auto'")]
    if layered:
        few = [k for k in numbers if all(type(p[k]) is int and 0 <= p[k] <= 8 for p in points)]
        candidates += _of_lists(points, lists, texts, few)
    for key in switches:
        candidates += [key, f"not {key}"]
    for key in (*numbers, *lists):
        values = [p[key] for p in points]
        if any(not v for v in values):
            candidates += [key, f"not {key}"]
        if any(v is None for v in values):
            candidates += [f"{key} == None", f"{key} != None"]
        if -1 in values:
            candidates += [f"{key} == -1", f"{key} != -1"]
        if key in numbers and len(set(map(str, values))) > 1:
            candidates += [f"{key} and {key} > 1", f"not {key} or {key} <= 1"]
    for key in texts:
        distinct = sorted({p[key] for p in points if p[key] is not None})
        if 1 < len(distinct) <= _MANY_VALUES:
            candidates += [f"{key} == {v!r}" for v in distinct] + [
                f"{key} != {v!r}" for v in distinct
            ]
        candidates += (
            [f"{key} == None", f"{key} != None"] if any(p[key] is None for p in points) else []
        )
    if layered:
        candidates += _of_index(points, numbers)
    widths = [k for k in numbers if k.endswith(("_dim", "_size", "_width"))][:10]
    candidates += [
        f"{a} {sign} {b}" for a, b in itertools.combinations(widths, 2) for sign in ("==", "!=")
    ]
    return candidates


def _of_lists(
    points: Sequence[Mapping[str, Any]], lists: list[str], texts: list[str], counts: list[str]
) -> list[str]:
    candidates = []
    for key in (*lists, *texts):
        values = [p[key] for p in points]
        indexed = all(
            v is not None and len(v) > p["i"] for v, p in zip(values, points, strict=True)
        )
        if indexed:
            try:
                distinct = sorted({v[p["i"]] for v, p in zip(values, points, strict=True)}, key=str)
            except TypeError:
                continue
            plain = all(isinstance(v, str | int) or v is None for v in distinct)
            if plain and len(distinct) <= _MANY_VALUES:
                candidates += [f"{key}[i] == {v!r}" for v in distinct]
                candidates += [f"{key}[i] != {v!r}" for v in distinct]
                if key in lists:
                    candidates += [f"before({key}, i) < {n}" for n in (1, 2, *counts)]
    for key in lists:
        candidates += [f"i in ({key} or [])", f"i not in ({key} or [])"]
        if not any(p[key] is None for p in points):
            candidates += [f"i + 1 in {key}", f"i + 1 not in {key}"]
    return candidates


def _of_index(points: Sequence[Mapping[str, Any]], numbers: list[str]) -> list[str]:
    counts = [
        k for k in numbers
        if all(p[k] is None or (type(p[k]) is int and 0 <= p[k] <= _LARGEST_INDEX) for p in points)
    ]  # fmt: skip
    candidates = []
    for key in counts:
        candidates += [f"i < ({key} or 0)", f"i >= ({key} or 0)"]
        candidates += [f"i <= ({key} or 0)", f"i > ({key} or 0)"]
        candidates += [f"{key} and (i + 1) % {key} {sign} 0" for sign in ("==", "!=")]
        candidates += [f"{key} and i % {key} {sign} 0" for sign in ("==", "!=")]
        candidates += [f"i < layers - ({key} or 0)", f"i >= layers - ({key} or 0)"]
    for period in counts:
        for offset in counts:
            if period != offset:
                candidates += [
                    f"{period} and i % {period} == {offset}",
                    f"{period} and i % {period} != {offset}",
                    f"{period} and (i - {offset}) % {period} == 0",
                    f"{period} and (i - 3) % {period} == {offset}",
                ]
    for constant in (1, 2, 3):
        candidates += [f"i < {constant}", f"i >= {constant}", f"i >= layers - {constant}"]
        candidates += [f"i < layers - {constant}"]
    for every in range(2, 9):
        for rest in range(every):
            candidates += [f"i % {every} == {rest}", f"i % {every} != {rest}"]
    return candidates
