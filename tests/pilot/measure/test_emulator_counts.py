"""What the counting tool writes is read exactly; what it did not write is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors import instruction_mix
from berth.pilot.collectors.instruction_mix import mix_of
from berth.pilot.emulator import tool
from berth.pilot.emulator.tool import EmulatedCounts, read_counts
from berth.pilot.errors import ToolMissing

# add %rcx,%rax; mulsd (%rdi),%xmm0; jne
CODE = ("4801c8", "f20f5907", "75f7")
LINES = (
    "l1_load_misses 7",
    "conditional 10",
    "object /usr/bin/app",
    f"10 401000 1 0 8 0 1 342 {''.join(CODE)}",
    "2 401009 0 2 0 16 0 - -",
    "object ",
    f"5 7000 0 0 0 0 0 3 {CODE[0]}",
    "end",
)


def counted(*lines: str) -> EmulatedCounts:
    found = EmulatedCounts()
    read_counts((f"{line}\n" for line in lines), found)
    return found


def test_segments_are_executions_of_addresses_and_bytes() -> None:
    found = counted(*LINES)
    assert found.totals == {"l1_load_misses": 7, "conditional": 10}
    [(segment, times)] = found.segments["/usr/bin/app"].items()
    addresses = (0x401000, 0x401003, 0x401007)
    assert list(segment.instructions()) == list(
        zip(addresses, map(bytes.fromhex, CODE), strict=True)
    )
    assert times == 10
    assert found.instructions_of("") == 5
    assert (found.loads, found.load_bytes) == (10, 80)
    assert (found.stores, found.store_bytes) == (4, 32)
    assert (found.instructions, found.regions, found.cut) == (35, 10, 0)


def test_a_file_without_its_end_is_counted_as_cut() -> None:
    assert counted(*LINES[:-1]).cut == 1


def test_files_of_several_processes_add_up() -> None:
    both = EmulatedCounts()
    for _ in range(2):
        read_counts(LINES, both)
    assert list(both.segments["/usr/bin/app"].values()) == [20]
    assert both.totals["l1_load_misses"] == 14


@given(st.lists(st.text(max_size=60) | st.sampled_from(LINES), max_size=20))
def test_any_text_is_read_without_a_fault(lines: list[str]) -> None:
    found = counted(*lines)
    assert found.instructions >= 0
    assert mix_of(found.segments).classified <= found.instructions


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_bytes_are_classified_wherever_they_were() -> None:
    found = counted(*LINES)
    mix = mix_of(found.segments)
    assert (mix.classified, mix.int_ops, mix.fp64_ops) == (35, 15, 10)
    assert (mix.control_instructions, mix.loads) == (10, 10)
    assert instruction_mix.texts_of([b"\x90"]) == {b"\x90": "nop"}


def test_a_repeated_string_instruction_counts_as_one_for_each_32_bytes() -> None:
    mov, stos, ret, movs = "4889d1", "f3aa", "c3", "f348a5"
    found = counted(
        f"2 10 0 0 0 0 0 3 {mov}",
        f"12800 13 0 1 0 1 0 2 {stos}",  # 6,400 bytes, twice
        f"2 15 1 0 8 0 0 1 {ret}",
        f"640 20 1 1 8 8 0 3 {movs}",  # what comes after it was never executed
    )
    mix = mix_of(found.segments)
    assert mix.classified == found.instructions
    assert mix.repeats == 12_800 - 12_800 // 32
    assert mix.stores == 12_800 // 32 + 640
    assert mix.loads == 640 + 2


def test_a_valgrind_without_development_files_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "valgrind"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(ToolMissing) as raised:
        tool.find_valgrind()
    assert "headers" in raised.value.message
    assert "valgrind-tools-devel" in (raised.value.hint or "")
