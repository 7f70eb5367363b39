"""Which readings of a place say the same, so that what was made of one holds for the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from policy_builders import NOW_S, state

from berth.policies.limits import Limit
from berth.policies.present import alike
from berth.policies.values import QueueBounds, RuledOut

PUT_BACK = RuledOut("gpu", "ada", "lu", "QOSMaxCpuPerJobLimit", "17", NOW_S)


@dataclass(frozen=True)
class Named:
    """Rights that differ by their name alone."""

    digest: str

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...]:
        return ()


HERE = state(rights=Named("a"))


@pytest.mark.parametrize(
    "changes",
    [
        {"up": False},
        {"usable_nodes": 3},
        {"usable_nodes": None},
        {"gpu_types": ("gpu:h100",)},
        {"bounds": QueueBounds(max_nodes=2)},
        {"ruled_out": (PUT_BACK,)},
        {"rights": Named("b")},
        {"rights": None},
    ],
)
def test_a_reading_that_says_otherwise_is_another_one(changes: dict[str, Any]) -> None:
    other = replace(HERE, **changes)
    for with_room in (True, False):
        assert not alike(HERE, other, with_room=with_room)
        assert alike(other, replace(other), with_room=with_room)


@pytest.mark.parametrize(
    "changes",
    [
        {"idle_cores": 1},
        {"idle_cores": 10_000},
        {"idle_gpus": 1},
        {"idle_gpus": 10_000},
        {"pending_jobs": 9},
    ],
)
def test_room_says_something_only_where_it_is_looked_at(changes: dict[str, Any]) -> None:
    other = replace(HERE, **changes)
    assert not alike(HERE, other, with_room=True)
    assert alike(HERE, other, with_room=False)


def test_age_and_the_object_of_the_rights_say_nothing() -> None:
    later = replace(HERE, as_of_s=NOW_S + 60.0, rights=Named("a"))
    assert alike(HERE, later, with_room=True)
    assert alike(None, None, with_room=True)
    assert not alike(HERE, None, with_room=True)
    assert not alike(None, HERE, with_room=True)
