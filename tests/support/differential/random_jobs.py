"""Options at random from tables of values; the same seed makes the same words."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

HOW_MANY = (1, 1, 1, 2, 2, 3)
"""Options of one job beside its shape: one, pairs, three."""


def random_options(
    made: random.Random,
    known: Mapping[str, str],
    values: Mapping[str, Sequence[str]],
    otherwise: Sequence[tuple[str, Sequence[str]]],
) -> list[str]:
    """Some of the options ``known``: each by what its help calls the value (empty: takes none).

    ``otherwise``: by a placeholder's beginning, values of options that ``values`` does not name.
    """
    names = made.sample(sorted(known), made.choice(HOW_MANY))
    return [_word(made, name, known[name], values.get(name), otherwise) for name in names]


def _word(
    made: random.Random,
    name: str,
    placeholder: str,
    values: Sequence[str] | None,
    otherwise: Sequence[tuple[str, Sequence[str]]],
) -> str:
    if values is None:
        if not placeholder:
            return f"--{name}"
        values = next(some for mark, some in otherwise if placeholder.startswith(mark))
    value = made.choice(values)
    return f"--{name}={value}" if value else f"--{name}"
