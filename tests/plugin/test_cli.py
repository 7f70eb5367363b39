"""The command line as a whole: fast to start, helpful, and never a traceback for bad input."""

from __future__ import annotations

import errno
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from berth.plugin import cli

BERTH = Path(sys.executable).parent / "berth"


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BERTH, *arguments], capture_output=True, text=True, cwd=cwd, check=False)


def test_help_names_every_command_and_stays_quick() -> None:
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        shown = run("--help")
        seconds.append(time.perf_counter() - start)
    assert shown.returncode == 0
    assert all((f"  {n} " in shown.stdout) is (n not in cli.HIDDEN) for n in cli.COMMANDS)
    # The bar is 150 ms on an idle machine (`make bench`); a busy one gets some slack here.
    assert statistics.median(seconds) < 0.5


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, berth.plugin.cli\n"
        "print(*[m for m in ('numpy', 'pydantic', 'sqlalchemy', 'rich', 'onnxruntime')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_explains_itself_with_an_example(name: str) -> None:
    shown = run(name, "--help")
    assert shown.returncode == 0
    assert "Usage" in shown.stdout


def test_an_unknown_command_is_wrong_usage() -> None:
    done = run("plot")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_errors_are_a_sentence_and_a_hint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from berth.pilot.errors import ToolMissing

    def fail(**_: object) -> None:
        raise ToolMissing("valgrind", needed_for="emulated counters", hint="install valgrind")

    monkeypatch.setattr(cli.berth, "main", fail)
    with pytest.raises(SystemExit) as stop:
        cli.main(["pilot"])
    assert stop.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "berth: valgrind is not available; it is needed for emulated counters",
        "  install valgrind",
    ]


def test_a_full_disk_is_a_sentence_that_names_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/scratch/bundle")

    monkeypatch.setattr(cli.berth, "main", fail)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "berth: /scratch/bundle: No space left on device\n"
