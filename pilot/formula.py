"""The catalogue's formulas over a tool's own names.

``"a + 2*b | c"``: alternatives divided by `` | ``, of which the first that the tool can answer
counts; each a sum of terms divided by `` + ``; each term factors joined by ``*``, of which the
plain numbers are weights and all others names.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Term:
    """``weight`` times the product of what ``names`` stand for."""

    weight: float
    names: tuple[str, ...]


def alternatives(formula: str) -> tuple[tuple[Term, ...], ...]:
    """The formula taken apart. Raises ValueError where it is none."""
    return tuple(_terms(part, formula) for part in formula.split(" | "))


def names(formula: str) -> frozenset[str]:
    """Every name in the formula."""
    return frozenset(n for terms in alternatives(formula) for term in terms for n in term.names)


def _terms(text: str, whole: str) -> tuple[Term, ...]:
    found = []
    for part in text.split(" + "):
        factors = part.split("*")
        weights = [float(f) for f in factors if NUMBER.fullmatch(f)]
        operands = tuple(f for f in factors if not NUMBER.fullmatch(f))
        if not operands or any(not name or name != name.strip() for name in operands):
            raise ValueError(f"not a sum of products: {whole!r}")
        found.append(Term(math.prod(weights), operands))
    return tuple(found)
