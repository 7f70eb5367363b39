"""A headline figure, its frozen value, and the verdict on a new one."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from berth.pilot.errors import DocumentError

TABLE = Path(__file__).with_name("figures.toml")
FROZEN = Path(__file__).with_name("frozen.json")
SAME = 1e-9
"""Relative difference below which two values are one."""


class Verdict(StrEnum):
    """What became of a figure."""

    SAME = "same"
    WITHIN = "within tolerance"
    BETTER = "better"
    WORSE = "WORSE"
    NOT_COMPUTED = "NOT COMPUTED"
    NOT_FROZEN = "not frozen"


class Model(BaseModel):
    """Unknown keys and NaN are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Figure(Model):
    """One headline figure: what it is and how far it may move."""

    id: str
    name: str
    data: str
    split: str
    source: str
    """The page of the documentation that prints it."""
    unit: Literal["", "%", "count", "ms"] = ""
    """``%``: values are fractions, printed as percentages."""
    better: Literal["lower", "higher", "near"]
    target: float | None = None
    """With ``near``: the value to be near to, for example a nominal coverage."""
    tolerance: float
    """How much worse it may be, in the unit of the value (a fraction for ``%``)."""
    printed: float | None = None
    """The value in the documentation, where it is of the same split and seed."""


class Part(Model):
    """Figures that are computed together by one module of ``parts/``."""

    name: str
    module: str
    full: bool = False
    """Only in ``make gate-full``."""
    seed: int = 0
    seconds: float
    """Roughly how long it takes on one core."""
    figures: tuple[Figure, ...]


class Frozen(Model):
    """The value before."""

    before: float
    frozen_from: Literal["run", "docs"]
    commit: str
    reason: str = ""
    """Why a worse value was accepted."""


def verdict(figure: Figure, before: float | None, now: float | None) -> Verdict:
    """Judge ``now`` against ``before``; None: not known. A value that is no number is worse."""
    if now is None:
        return Verdict.NOT_COMPUTED
    if before is None:
        return Verdict.NOT_FROZEN
    if not math.isfinite(now):
        return Verdict.WORSE
    if math.isclose(now, before, rel_tol=SAME, abs_tol=1e-12):
        return Verdict.SAME
    loss = _loss(figure, now, before) - _loss(figure, before, before)
    if loss > figure.tolerance:
        return Verdict.WORSE
    return Verdict.BETTER if loss < -figure.tolerance else Verdict.WITHIN


def _loss(figure: Figure, value: float, before: float) -> float:
    """Smaller is better."""
    if figure.better == "near":
        return abs(value - (before if figure.target is None else figure.target))
    return value if figure.better == "lower" else -value


def load_parts(path: Path = TABLE) -> tuple[Part, ...]:
    """Return every part with its figures. Raises DocumentError for a table that makes no sense.

    ``data``, ``split``, ``source`` of a part hold for its figures that do not name their own.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["part"]
        parts = tuple(_part(name, table) for name, table in tables.items())
    except (tomllib.TOMLDecodeError, ValidationError, KeyError, TypeError) as error:
        raise DocumentError(path, f"is not a table of figures: {error}") from None
    names = [figure.id for part in parts for figure in part.figures]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DocumentError(path, f"{twice[0]} is there twice")
    return parts


def _part(name: str, table: dict[str, Any]) -> Part:
    shared = {key: table.pop(key) for key in ("data", "split", "source") if key in table}
    figures = [
        {**shared, **figure, "id": f"{name}.{figure['id']}"} for figure in table.pop("figures")
    ]
    return Part.model_validate({"name": name, **table, "figures": figures})


def load_frozen(path: Path = FROZEN) -> dict[str, Frozen]:
    """Return figure -> value before; empty without a file. Raises DocumentError."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: Frozen.model_validate(one) for name, one in found.items()}
    except (ValueError, AttributeError) as error:
        raise DocumentError(path, f"is not a file of frozen values: {error}") from None


def save_frozen(frozen: dict[str, Frozen], parts: Iterable[Part], path: Path = FROZEN) -> None:
    """Write the values of figures that are in the table, in its order."""
    names = [figure.id for part in parts for figure in part.figures]
    lines = [
        f" {json.dumps(name)}: {frozen[name].model_dump_json(exclude_defaults=True)}"
        for name in names
        if name in frozen
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
