"""The command line as a whole: fast to start, helpful, and never a traceback for bad input."""

from __future__ import annotations

import errno
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from warm_berth import run_berth

from berth.plugin import cli

BERTH = Path(sys.executable).parent / "berth"


def test_help_names_every_command_and_stays_quick() -> None:
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown = subprocess.run([BERTH, "--help"], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert all(f"  {n} " in shown.stdout for n in cli.COMMANDS)
    # The bar is 150 ms on an idle machine (`make bench`); here it is processor time, with slack.
    assert statistics.median(seconds) < 0.3


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
    shown = run_berth(name, "--help")
    assert shown.returncode == 0
    assert "Usage" in shown.stdout


def test_an_unknown_command_is_wrong_usage() -> None:
    done = run_berth("plot")
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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--users", "--status"), "--status asks the scheduler's daemon"),
        (("--once",), "--once goes with --metrics"),
        (("--users", "--once"), "--once goes with --metrics"),
    ],
)
def test_serve_refuses_options_that_would_do_nothing(
    options: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    """`--users --status` showed the other daemon; `--once` alone started one that stays."""
    site = tmp_path / "berth.toml"
    site.touch()
    done = run_berth("serve", "--site", site, *options)
    assert done.returncode == 2
    assert says in done.stderr
