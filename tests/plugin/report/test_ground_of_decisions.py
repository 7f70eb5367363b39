"""What a decision was based on, what would make it better, what it would have been with a pilot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from berth_daemon import forecast
from stored import STORED_DECISION

from berth.plugin.outcomes.measured_gain import gains_of
from berth.plugin.report.of_gain import gain_part
from berth.plugin.report.of_ground import ground_sentences
from berth.plugin.store import Store
from berth.plugin.store.records import ForecastRecord, PlacedRun, WorkloadRecord
from berth.policies.codes import Ground

UNKNOWN = replace(
    STORED_DECISION,
    user="alice", workload=None, code="fits", chosen="cpu", ground=Ground.FIT.value,
    request='{"gpus":0,"tasks":4,"cpus_per_task":1,"nodes":0,"job":{"name":"stream.sh"}}',
    ranked='[{"candidate":"cpu","platform":"rome-7742","excluded":null},'
           '{"candidate":"gpu","platform":"a100-80gb","excluded":null},'
           '{"candidate":"off","platform":"a100-80gb","excluded":"it is down"}]',
)  # fmt: skip


@pytest.mark.parametrize("ground", Ground)
def test_every_ground_has_its_sentence_and_says_what_is_better(ground: Ground) -> None:
    sentences = ground_sentences(None, replace(UNKNOWN, ground=ground.value))
    assert sentences[0].startswith("based on ")
    pilot = ground in (Ground.MEASURED, Ground.DESCRIBED)
    assert len(sentences) == (1 if pilot else 2)


def test_nothing_is_said_of_decisions_that_chose_no_place() -> None:
    assert ground_sentences(None, None) == []
    assert ground_sentences(None, replace(UNKNOWN, ground=None)) == []


def test_the_choice_with_a_pilot_is_named_where_the_store_has_one(store: Store) -> None:
    assert "better with" in ground_sentences(store, UNKNOWN)[1]
    made = forecast("alice/stream")
    store.add(WorkloadRecord(made.workload, made.kind, made.digest, "{}", "alice", 0.0))
    store.put_forecast(ForecastRecord(made.workload, made.bundle, made.to_json(), 0.0))
    sentence = ground_sentences(store, UNKNOWN)[1]
    assert sentence.startswith("with the pilot alice/stream it would have been gpu instead of cpu")


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
