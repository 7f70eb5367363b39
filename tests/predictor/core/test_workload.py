"""Workloads are told apart by their schema; what is none is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_configs import LLAMA
from toy_profiles import profile

from berth.pilot.documents import to_json
from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.workload import (
    KINDS,
    Amount,
    parse_workload,
    read_workload,
    workload_of,
)
from berth.predictor.families.history.workload import HistoryWorkload, PastRun
from berth.predictor.families.language_model.workload import LanguageModelWorkload


def test_a_profile_is_a_program_whose_amount_is_its_run() -> None:
    found = workload_of(profile())
    assert (found.kind, found.name, found.amount.unit) == ("program", profile().name, WorkUnit.JOB)
    assert parse_workload(to_json(profile()), source="x").digest == found.digest


def test_every_schema_of_berths_own_is_read_back(tmp_path: Path) -> None:
    documents = [
        HistoryWorkload(name="h", runs=(PastRun(platform="rome-7742", cores=8, runtime_s=5.0),)),
        LanguageModelWorkload(name="llama", config=LLAMA, tensor_parallel=2),
        profile(),
    ]
    for document in documents:
        path = tmp_path / "workload.json"
        path.write_text(to_json(document))
        assert read_workload(path).document == document
    assert workload_of(documents[1]).runs_on.gpus == 2
    assert set(KINDS.own()) >= {"berth.profile/1", "berth.model-workload/1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "names no schema"),
        ("[1]", "names no schema"),
        ("\x00", "is not JSON"),
        ('{"schema": 3}', "names no schema"),
        ('{"schema": "berth.site/1"}', "'berth.site/1', which is no workload's"),
        ('{"schema": "berth.history-workload/1", "name": "h", "runs": []}', "runs"),
        ('{"schema": "berth.history-workload/1", "name": "off/..", "runs": []}', "name"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as refused:
        parse_workload(text, source="file.json")
    assert said in str(refused.value)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("count", ["0", "-1", "NaN", "1e400", '"many"'])
def test_an_amount_is_a_positive_number(count: str) -> None:
    text = json.dumps({"schema": "berth.language-model-workload/1", "name": "m", "config": LLAMA})
    amount = f'"amount": {{"unit": "request", "count": {count}}}'
    with pytest.raises(BerthError):
        parse_workload(f"{text[:-1]}, {amount}}}", source="x")


def test_steps_of_epochs_need_the_steps_of_one() -> None:
    assert Amount(unit=WorkUnit.EPOCH, count=3).steps is None
    assert Amount(unit=WorkUnit.EPOCH, count=3, steps_per_epoch=100).steps == 300
    assert Amount(unit=WorkUnit.REQUEST, count=7).steps == 7


def test_a_document_of_no_kind_is_no_workload() -> None:
    with pytest.raises(UsageError, match="schema of workloads"):
        workload_of(Amount(unit=WorkUnit.STEP))
