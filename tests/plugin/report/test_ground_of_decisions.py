"""What a decision was based on, and what would make it better."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stored import STORED_DECISION

from berth.plugin.outcomes.measured_gain import gains_of
from berth.plugin.report.of_gain import gain_part
from berth.plugin.report.of_ground import ground_sentences
from berth.plugin.store import Store
from berth.plugin.store.records import PlacedRun
from berth.policies.codes import Ground

UNKNOWN = replace(
    STORED_DECISION,
    user="alice", workload=None, code="fits", chosen="cpu", ground=Ground.FIT.value,
)  # fmt: skip


@pytest.mark.parametrize("ground", Ground)
def test_every_ground_has_its_sentence_and_says_what_is_better(ground: Ground) -> None:
    sentences = ground_sentences(replace(UNKNOWN, ground=ground.value))
    assert sentences[0].startswith("based on ")
    pilot = ground in (Ground.MEASURED, Ground.DESCRIBED)
    assert len(sentences) == (1 if pilot else 2)


def test_nothing_is_said_of_decisions_that_chose_no_place() -> None:
    assert ground_sentences(None) == []
    assert ground_sentences(replace(UNKNOWN, ground=None)) == []


def test_the_gain_counts_decisions_by_their_ground(store: Store) -> None:
    outcomes = [
        PlacedRun("lab", str(n), "al", "completed", decision=f"d{n}", end_s=5.0) for n in range(3)
    ]
    store.outcomes.put(outcomes)
    store.decisions.add(
        [
            replace(UNKNOWN, id=f"d{n}", ground=ground.value)
            for n, ground in enumerate((Ground.FIT, Ground.FIT, Ground.MEASURED))
        ]
    )
    measured, grounds = gains_of(store, store.outcomes.newest(0.0, 9.0, 9), None)
    assert (measured, grounds) == ([], {"fit": 2, "measured": 1})
    part = gain_part(measured, grounds)
    assert "2 fit, 1 a pilot" in part.notes[0]
    assert part.lines[0].startswith("Not known: no job was left as written")
