"""Valgrind's outputs are read right, and nothing that looks like one raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors import cachegrind, callgrind, instruction_mix, lackey, valgrind
from berth.pilot.collectors.valgrind import Process

CACHEGRIND = """\
desc: I1 cache:         32768 B, 64 B, 8-way associative
cmd: ./triad 100
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim
fl=triad.c
fn=main
12 9 0 0 3 0 0 1 0 0 1 0 0 0
summary: 6128627 1264 1243 1029408 1231 1008 1010837 377 348 1025349 3259 307 165
"""
LACKEY = """\
==7== Lackey, an example Valgrind tool
==7== Command: ./triad 100
==7== Parent PID: 3
==7==
==7== Jccs:
==7==   total:         526,276
==7==   taken:         510,573 (97%)
==7==
==7== Executed:
==7==   guest instrs:  3,930,854
==7==
==7== IR-level counts by type:
==7==    Type        Loads       Stores       AluOps
==7==    -------------------------------------------
==7==    I8          8,759          188       28,926
==7==    I64       816,129      610,512    3,184,571
==7==    F64             1            0      200,000
==7==    V256            4            2           12
==7==
==7== Exit code:       0
"""
CALLGRIND = """\
# callgrind format
events: Ir Dr Dw
summary: 119 4 2
ob=/bin/app
fn=main
0x1070 10 1
0x1074 20 0 2
calls=1 0x2000
0x1079 89 3
ob=/lib/libc.so.6
fn=strtol
0x2000 89 3
totals: 119 4 2
"""
PREFIXED = "==9== Command: ./app\n==9== Parent PID: 3\n"


def test_cachegrind_totals_are_by_event() -> None:
    found = cachegrind.parse(CACHEGRIND)
    assert found["Ir"] == 6_128_627
    assert (found["D1mr"], found["DLmw"], found["Bim"]) == (1231, 348, 165)


def test_a_cachegrind_file_without_its_summary_counts_nothing() -> None:
    assert cachegrind.parse(CACHEGRIND.partition("summary:")[0]) == {}
    assert cachegrind.parse(CACHEGRIND.replace(" 165\n", "\n")) == {}


def test_processes_are_added_up() -> None:
    assert cachegrind.add_up([{"Ir": 2, "Dr": 1}, {"Ir": 3}]) == {"Ir": 5, "Dr": 1}


def test_lackey_rows_become_counts_and_bytes() -> None:
    counts = lackey.parse(LACKEY)
    assert counts is not None
    values = lackey.totals([counts, counts])
    assert values["instructions"] == 2 * 3_930_854
    assert values["branches"] == 2 * 526_276
    assert values["loads"] == 2 * (8_759 + 816_129 + 1 + 4)
    assert values["load_bytes"] == 2 * (8_759 + 8 * 816_129 + 8 + 32 * 4)
    assert values["int_ops"] == 2 * (28_926 + 3_184_571)


def test_a_lackey_log_that_was_killed_gives_none() -> None:
    assert lackey.parse(LACKEY.partition("==7== Jccs")[0]) is None


def test_callgrind_counts_each_instruction_where_it_ran() -> None:
    executed: callgrind.Executed = {}
    totals = callgrind.parse(CALLGRIND.splitlines(keepends=True), executed)
    assert executed == {"/bin/app": {0x1070: 10, 0x1074: 20}, "/lib/libc.so.6": {0x2000: 89}}
    assert totals == {"Ir": 119, "Dr": 4, "Dw": 2, callgrind.REGIONS: 0}


noise = st.text(alphabet=st.sampled_from("0123456789abxIVF:=,.<>% \n\tsummary events calls ob fn"))


@given(noise)
def test_any_text_is_read_without_an_exception(text: str) -> None:
    assert all(value >= 0 for value in cachegrind.parse(text).values())
    assert all(value >= 0 for value in callgrind.parse(text.splitlines(), {}).values())
    list(instruction_mix.parse_objdump(text))
    counts = lackey.parse(text)
    assert counts is None or counts.instructions >= 0


@given(st.dictionaries(st.sampled_from(["Ir", "Dr", "Dw", "Bc", "Bim"]), st.integers(0, 10**17)))
def test_what_cachegrind_writes_is_what_is_read(values: dict[str, int]) -> None:
    text = f"events: {' '.join(values)}\nsummary: {' '.join(str(v) for v in values.values())}\n"
    assert cachegrind.parse(text) == values


@given(st.sets(st.integers(0, 2**48), max_size=300))
def test_ranges_cover_every_address_and_are_few(addresses: set[int]) -> None:
    found = instruction_mix.ranges(addresses)
    assert len(found) <= instruction_mix.RANGES_MAX
    assert all(any(start <= a < stop for start, stop in found) for a in addresses)


def _process(pid: int, parent: int, command: str, text: str = "") -> Process:
    return Process(pid, parent, command, text)


def test_forks_without_exec_are_told_from_new_programs() -> None:
    found = [_process(2, 1, "./a 1"), _process(3, 2, "./a 1"), _process(4, 2, "./b")]
    assert valgrind.forked_without_exec(found) == 1


@pytest.mark.parametrize(
    ("bytes_", "said", "avx512"),
    [
        ("0x62 0xF1 0xFD 0x48 0x6F 0xC0 0x31", "AVX-512", True),
        ("0xF 0xB 0x31 0xC0", "an instruction", False),
    ],
)
def test_an_instruction_that_valgrind_lacks_is_recognised(
    bytes_: str, said: str, avx512: bool
) -> None:
    text = f"vex amd64->IR: unhandled instruction bytes: {bytes_}\n"
    found = [_process(2, 1, "./app", text)]
    assert said in (valgrind.illegal_instruction(found) or "")
    assert valgrind.needs_avx512(found) is avx512


def test_logs_are_found_by_their_process_and_other_files_left_alone(tmp_path: Path) -> None:
    (tmp_path / "log.9").write_text(PREFIXED)
    (tmp_path / "log.x").write_text("nothing")
    assert valgrind.processes(tmp_path) == [Process(9, 3, "./app", PREFIXED)]


def test_the_emulated_environment_does_not_depend_on_the_shell() -> None:
    one = valgrind.pinned_environment({"PATH": "/bin", "SHLVL": "1", "TERM": "xterm", "A": "b"})
    two = valgrind.pinned_environment({"A": "b", "SSH_TTY": "/dev/pts/9", "PATH": "/bin"})
    assert one == two
    assert list(one) == sorted(one)
    assert one["OMP_NUM_THREADS"] == "1"
