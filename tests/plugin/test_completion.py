"""Completion in the shell: what the completer answers, and the line that docs/commands.md gives."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from warm_berth import FRESH

from berth.plugin.cli.command_line import berth

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete,
}  # fmt: skip


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_completer_knows_commands_options_and_values(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BashComplete, "_check_version", staticmethod(lambda: None))
    made = SHELLS[shell](berth, {}, "berth", "_BERTH_COMPLETE")

    def offered(*words: str, begun: str = "") -> set[str]:
        return {one.value for one in made.get_completions(list(words), begun)}

    assert {"mig", "predict", "site", "jobs"} <= offered()
    assert {"init", "slurm", "flux"} <= offered("site")
    assert "replace" in offered("place")
    assert "--tasks" in offered("place", begun="--t")
    assert {"--site"} <= offered("place", "replace", begun="--s")
    assert offered(begun="wo") == {"workload"}
    assert {"plan", "show"} <= offered("mig")
    assert "--fleet" in offered("mig", "plan", begun="--f")
    assert {"slurm", "flux"} <= offered("site", "init", "--scheduler")
    assert "_BERTH_COMPLETE" in made.source()
    assert f"_BERTH_COMPLETE={shell}_source berth" in PAGE


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_packages_file_is_what_click_makes(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BashComplete, "_check_version", staticmethod(lambda: None))
    source = SHELLS[shell](berth, {}, "berth", "_BERTH_COMPLETE").source()
    shipped = Path(__file__).parents[2] / "deploy" / "completions" / f"berth.{shell}"
    assert shipped.read_text().rstrip() == source.rstrip()


def line_for(shell: str) -> str:
    """The page's line of a shell, as people copy it."""
    return next(one for one in PAGE.splitlines() if f"{shell}_source" in one).partition(" #")[0]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where shells find berth."""
    (tmp_path / "berth").write_text(f'#!/bin/sh\nexec {FRESH[0]} -c "{FRESH[2]}" "$@"\n')
    (tmp_path / "berth").chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: no bash here")
def test_bash_itself_completes(path: str) -> None:
    """The page's line in a shell, and a tab after it."""
    typed = "COMP_WORDS=(berth wor); COMP_CWORD=1; _berth_completion berth wor berth"
    done = subprocess.run(
        ["bash", "-c", f'{line_for("bash")}\n{typed}\necho "${{COMPREPLY[@]}}"'],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["workload"], done.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="NOT TESTED: no fish here")
def test_fish_itself_completes(path: str, tmp_path: Path) -> None:
    asked = "; ".join(f"complete -C '{typed}'" for typed in ("berth wor", "berth mig plan --hor"))
    done = subprocess.run(
        ["fish", "-c", f"{line_for('fish')}\n{asked}"],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    offered = [one.split("\t")[0] for one in done.stdout.splitlines()]
    assert offered == ["workload", "--horizon"], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="NOT TESTED: no zsh here")
def test_zsh_itself_completes(path: str, tmp_path: Path) -> None:
    """In its start file the page's line alone; then somebody types a tab."""
    (tmp_path / ".zshrc").write_text(f"PROMPT='ready> '\n{line_for('zsh')}\n")
    own, its = pty.openpty()
    env = {"PATH": path, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        ["zsh", "-i"], env=env, stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as process:
        os.close(its)
        try:
            read_until(own, "ready> ")
            os.write(own, b"berth wor\t\x01echo \n")  # Ctrl-A: to the line's beginning
            assert "berth workload" in read_until(own, "\nberth workload")
        finally:
            process.kill()
            os.close(own)


def read_until(terminal: int, wanted: str, limit_s: float = 200.0) -> str:
    """What a shell shows, up to the wanted words; or all that it showed in that time."""
    shown, end_s = "", time.monotonic() + limit_s
    while wanted not in shown and time.monotonic() < end_s:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace").replace("\r", "")
    assert wanted in shown, shown
    return shown
