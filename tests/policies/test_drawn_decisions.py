"""What is decided for drawn sites, as it was last looked at: ``drawn_decisions.txt``.

A change of the policies shows there what it changes. Look at each line before the file is written
anew: ``BERTH_REWRITE=1 pytest tests/policies/test_drawn_decisions.py``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from drawn_cases import case, shown
from one_decision import decide
from policy_builders import NOW_S

from berth.policies.decide import Decider

CASES = 240
FILE = Path(__file__).with_name("drawn_decisions.txt")


def lines_of(seed: int) -> list[str]:
    """The decision of a case; that by a later state, where it differs; and the best one's score."""
    drawn = case(seed)
    decider = Decider(drawn.candidates, drawn.settings)
    first = decider.decide(drawn.request, drawn.states, drawn.forecast, NOW_S)
    then = decider.decide(drawn.request, drawn.later, drawn.forecast, NOW_S + 1.0)
    anew = decide(
        drawn.request, drawn.candidates, drawn.later, drawn.forecast, drawn.settings,
        now_s=NOW_S + 1.0,
    )  # fmt: skip
    assert shown(then) == shown(anew)
    assert then.id == anew.id
    lines = [f"{seed}: {shown(first)}"]
    if shown(then) != shown(first):
        lines.append(f"{seed} later: {shown(then)}")
    if then.chosen is not None:
        terms = decider.terms(drawn.request, then.ranked[0], drawn.later, drawn.forecast)
        lines.append(
            f"{seed} terms: " + ", ".join(f"{t.name} {t.value:.5g} {t.unit}" for t in terms)
        )
    return lines


def test_decisions_are_as_they_were() -> None:
    now = [line for seed in range(CASES) for line in lines_of(seed)]
    if os.environ.get("BERTH_REWRITE"):
        FILE.write_text("\n".join(now) + "\n")
    before = FILE.read_text().splitlines()
    for one, other in zip(before, now, strict=False):
        assert other == one
    assert len(now) == len(before)


@pytest.mark.parametrize("code", ["placed", "no-candidate"])
def test_the_cases_have_something_to_decide(code: str) -> None:
    lines = FILE.read_text().splitlines()
    assert sum(f": {code} " in line for line in lines) > len(lines) / 10
