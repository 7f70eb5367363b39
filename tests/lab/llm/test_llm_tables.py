"""TensorRT-LLM's tables and InferenceX are read as their notes say."""

from __future__ import annotations

from collections import Counter

import pytest

from berth.predictor.families.language_model.physics import SATURATED, TTFT
from lab import datasets
from lab.datasets.llm_tables import INFERENCEX, TABLES, closed_rows, table_rows
from lab.llm.cases import Cases, table

present = pytest.mark.skipif(
    not all((datasets.folder() / d.path).is_file() for d in (TABLES, INFERENCEX)),
    reason=f"needs {TABLES.path} and {INFERENCEX.path}: set {datasets.FOLDER_VARIABLE}",
)


@pytest.fixture(scope="module")
def tables() -> Cases:
    return table(SATURATED)


@present
def test_tables_have_their_rows_and_the_requests_of_the_same_lengths() -> None:
    rows = table_rows()
    assert Counter(row.version for row in rows) == {"0.17": 247, "1.0": 230, "1.2": 60}
    assert all(row.requests >= 1000 for row in rows)
    first = rows[0]
    assert first.seconds == pytest.approx(first.requests * first.output_tokens / first.tokens_per_s)


@present
def test_closed_loads_are_no_disaggregated_and_no_speculative_ones() -> None:
    rows = closed_rows()
    assert {row.accelerator for row in rows} == {
        "b200-sxm-180gb", "b300-sxm-288gb", "h200-sxm-141gb", "mi300x-192gb", "mi325x-256gb"
    }  # fmt: skip
    assert all(row.tensor * row.data in {4, 8} for row in rows)
    assert len({(r.accelerator, r.concurrency, r.ttft_s, r.tpot_s) for r in rows}) == len(rows)


@present
def test_first_tokens_are_of_servers_where_nobody_waits() -> None:
    data = table(TTFT)
    for case in data.cases[::50]:
        load = case.load
        each = load.batch / load.data_parallel
        assert load.at_once(case.model, case.device.memory_bytes) == each
        assert case.model.heads % load.tensor_parallel == 0
