"""Small changes anywhere in plain data, as JSON has it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2,
    3.5,
    1e308,
    10**30,
    "",
    "x",
    "\udc80",
    "\0",
    "{{tmpdir}}/script",
    [],
    {},
    [[]],
    {"min": 1},
    [1, "a"],
    {"properties": ["gpu"]},
    {"type": "node", "count": 1},
)
"""What a place is filled with."""


def places(value: Any) -> list[tuple[Any, Any]]:
    """Everything inside ``value``, each as what holds it and its key there."""
    found, left = [], [value]
    while left:
        holder = left.pop()
        for key, item in holder.items() if type(holder) is dict else enumerate(holder):
            found.append((holder, key))
            if item and type(item) in (dict, list):
                left.append(item)
    return found


def mutate(
    value: Any, rng: random.Random, parts: Sequence[str] = ("1",), odd: Sequence[Any] = ODD
) -> None:
    """One to three small changes anywhere in a dict or list; ``parts``: JSON to put in places."""
    for _ in range(rng.randint(1, 3)):
        found = places(value)
        if not found:
            return
        holder, key = rng.choice(found)
        kind = rng.random()
        if kind < 0.25:
            del holder[key]
        elif kind < 0.35:
            holder[key] = json.loads(json.dumps(value))
        elif kind < 0.5:
            holder[key] = json.loads(rng.choice(parts))
        else:
            holder[key] = copy.deepcopy(rng.choice(odd))
