"""Valgrind's outputs are read right, and nothing that looks like one raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors import valgrind
from berth.pilot.collectors.valgrind import Process
from berth.pilot.objdump import parse_objdump

PREFIXED = "==9== Command: ./app\n==9== Parent PID: 3\n"


noise = st.text(alphabet=st.sampled_from("0123456789abxIVF:=,.<>% \n\tsummary events calls ob fn"))


@given(noise)
def test_any_text_is_read_without_an_exception(text: str) -> None:
    list(parse_objdump(text.encode()))


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
