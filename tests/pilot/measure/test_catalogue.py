"""The catalogue, its page, and the formulas agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot.catalogue import BY_NAME, COUNTERS, REQUIRED, counter, from_source, page
from berth.pilot.collectors.perf import terms
from berth.pilot.derive import FORMULAS
from berth.pilot.errors import UsageError

ROOT = Path(__file__).parents[3]
TABLE_I = {
    "# Instructions",
    "Ratio Int Arith. to Total Instr.",
    "Ratio Float Arith. to Total Instr.",
    "Ratio Mem. to Total Instr.",
    "Ratio Caches Misses to Hits",
    "# Page Levels",
    "# Page Faults",
    "GPU2CPU & CPU2GPU Bandwidth",
    "Ratio Control to Total Instr.",
    "Ratio Indep. Instr. to Total Instr.",
    "Ratio Branch Misses to Branch Instr.",
    "# Threads / Streams",
    "Warp Blocks",
    "IO Bytes Read/Written",
    "IO File Descriptors Opened",
}
TABLE_II = {
    "Branch Intensity",
    "Load Intensity",
    "Store Intensity",
    "L1 Load Misses",
    "L1 Store Misses",
    "L2 Load Misses",
    "L2 Store Misses",
    "Single Floating Point Intensity",
    "Double Floating Point Intensity",
    "Arithmetic Intensity",
    "I/O Bytes Read",
    "I/O Bytes Written",
    "Extended Page Table",
    "Memory Stall",
}


def test_the_committed_page_is_generated_from_the_catalogue() -> None:
    written = (ROOT / "docs" / "counters.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m berth.pilot.catalogue > docs/counters.md"


def test_every_row_of_the_papers_tables_has_a_counter() -> None:
    rows = {
        table: {c.tables[table] for c in COUNTERS if table in c.tables} for table in ["I", "II"]
    }
    assert rows == {"I": TABLE_I, "II": TABLE_II}


def test_names_are_unique_and_entries_are_whole() -> None:
    assert len(BY_NAME) == len(COUNTERS)
    for entry in COUNTERS:
        assert entry.unit, entry.name
        assert entry.definition.endswith("."), entry.name


def test_derived_counters_are_those_with_a_formula() -> None:
    assert set(from_source("derived")) == {name for name, _, _ in FORMULAS}
    for _, operands, _ in FORMULAS:
        assert set(operands) <= set(BY_NAME)


@pytest.mark.parametrize("family", ["perf:intel", "perf:amd", "perf:arm", "perf:power"])
def test_every_hardware_formula_can_be_evaluated(family: str) -> None:
    formulas = from_source(family)
    assert {"instructions", "branches", "branch_misses", "loads"} <= set(formulas)
    for text in formulas.values():
        assert terms(text)


@pytest.mark.parametrize("family", ["perf:intel", "perf:amd", "perf:arm", "perf:power"])
def test_hardware_counters_give_what_a_prediction_needs(family: str) -> None:
    assert set(REQUIRED) <= set(from_source(family))


def test_an_unknown_counter_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="not a counter") as caught:
        counter("instruction")
    assert "instructions" in (caught.value.hint or "")
