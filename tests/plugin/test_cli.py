"""The command line as a whole: fast to start, helpful, and never a traceback for bad input."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from warm_berth import run_berth

from berth.plugin import cli
from berth.plugin.cli.command_line import berth
from berth.plugin.cli.tree import COMMANDS

BERTH = Path(sys.executable).parent / "berth"


def test_help_names_every_command() -> None:
    shown = subprocess.run([BERTH, "--help"], capture_output=True, text=True, check=True)
    assert all(f"  {n} " in shown.stdout for n in COMMANDS)


@pytest.mark.parametrize("words", [[], ["pilot"], ["jobs"], ["site"]], ids=" ".join)
def test_help_of_groups_imports_nothing_heavy(words: list[str]) -> None:
    program = (
        "import contextlib, sys\n"
        "from berth.plugin.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({[*words, '--help']})\n"
        "print(*[m for m in ('numpy', 'pydantic', 'sqlalchemy', 'rich', 'onnxruntime')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("Usage")
    assert done.stdout.splitlines()[-1] == ""


def commands(
    command: click.Command, context: click.Context, path: tuple[str, ...] = ("berth",)
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command and group of the tree, with its words and its context."""
    yield " ".join(path), command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, parent=context, info_name=name)
            yield from commands(below, inner, (*path, name))


TREE = {
    words: (command, context)
    for words, command, context in commands(
        berth, click.Context(berth, info_name="berth", terminal_width=80)
    )
}
SCREEN_LINES = 44


def test_there_are_twelve_commands() -> None:
    assert list(COMMANDS) == [
        "pilot", "workload", "predict", "place", "why", "jobs", "replay", "train", "mig", "site",
        "serve", "ui",
    ]  # fmt: skip


@pytest.mark.parametrize("words", TREE)
def test_help_begins_with_an_example_and_its_options_on_one_screen(words: str) -> None:
    command, context = TREE[words]
    lines = command.get_help(context).splitlines()
    assert lines[0].startswith(f"Usage: {words}")
    example = lines[lines.index("  Example:") + 1]
    assert words in example or isinstance(command, click.Group), "an example of this command"
    assert lines.index("  Example:") <= 3, "before all else"
    assert not command.params or lines.index("Options:") < SCREEN_LINES / 2


def test_every_option_says_what_it_does() -> None:
    """Every option has a help text: a sentence, none that begins in the middle of one."""
    texts = {
        f"{words} {option.opts[0]}": option.help or ""
        for words, (command, _) in TREE.items()
        for option in command.params
        if isinstance(option, click.Option)
    }
    assert [name for name, text in texts.items() if len(text.split()) < 2] == []
    assert [name for name, text in texts.items() if re.match(r"(Of|So|For|As) ", text)] == []
    assert [name for name, text in texts.items() if text.rstrip()[-1] not in ".]"] == []


def test_a_command_with_others_below_it_runs_by_itself(tmp_path: Path) -> None:
    """The first word decides: a file of such a name is given as ./NAME."""
    run = CliRunner().invoke
    assert "absent" in str(run(berth, ["place", "absent", "--demo"]).exception)
    assert "say which jobs" in str(run(berth, ["place", "replace"]).exception)
    file = run(berth, ["place", "./replace", "--demo"])
    assert "replace: does not exist" in str(file.exception)
    assert "No such command" in run(berth, ["jobs", "replace"]).output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["doctor"], "There is: berth site doctor"),
        (["site", "outcomes"], "There is: berth jobs outcomes"),
        (["show"], "berth workload show or berth mig show"),
        (["jobz"], "Did you mean 'jobs'?"),
        (["nothing-like-it"], "No such command 'nothing-like-it'."),
    ],
)
def test_a_command_in_another_place_is_named(words: list[str], says: str) -> None:
    done = CliRunner().invoke(berth, words)
    assert done.exit_code == 2
    assert says in done.output


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

    monkeypatch.setattr(berth, "main", fail)
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

    monkeypatch.setattr(berth, "main", fail)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "berth: /scratch/bundle: No space left on device\n"


def test_serve_refuses_an_option_that_would_do_nothing(tmp_path: Path) -> None:
    """`--users --status` showed the other daemon."""
    site = tmp_path / "berth.toml"
    site.touch()
    done = run_berth("serve", "--site", site, "--users", "--status")
    assert done.returncode == 2
    assert "--status asks the scheduler's daemon" in done.stderr
