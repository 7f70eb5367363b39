"""The tasks of `berth train` and `berth evaluate`: the registry is true, and lazy."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from berth.pilot.errors import UsageError
from lab import commands as tasks
from lab.commands import registry
from lab.commands.asked import Asked
from lab.commands.registry import TASKS, TRAINED
from lab.commands.shown import show

HELPERS = {
    "__init__",
    "asked",
    "kernels_adapt",
    "learn",
    "model_adapt",
    "registry",
    "relative_input",
    "shown",
    "step_bar",
}


def asked(task: str, **given: object) -> Asked:
    least = {"profiles": (), "reference": None, "seed": 0, "folder": None}
    return Asked(task=task, **{**least, **given})  # type: ignore[arg-type]


def test_each_module_is_a_task_and_each_task_has_its_module() -> None:
    files = {path.stem for path in Path(tasks.__path__[0]).glob("*.py")} - HELPERS
    assert files == {name.replace("-", "_") for name in TASKS}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_does_what_its_line_says(name: str) -> None:
    module = importlib.import_module(registry.module_of(name))
    for verb, offered in (("evaluate", True), ("train", name in TRAINED)):
        assert hasattr(module, verb) == offered
        if offered:
            assert list(inspect.signature(getattr(module, verb)).parameters) == ["asked"]


def test_help_imports_no_task() -> None:
    program = (
        "import sys\n"
        "from berth.plugin.cli import train, evaluate\n"
        f"print(*[m for m in {[registry.module_of(n) for n in TASKS]!r} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", [n for n in TRAINED if n != "graph-language"])
def test_a_bundle_without_a_folder_is_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(UsageError, match="--out FOLDER"):
        registry.train(asked(name))


@pytest.mark.parametrize("name", [n for n, t in TASKS.items() if not t.takes])
def test_a_task_with_data_of_its_own_takes_no_profiles(name: str) -> None:
    with pytest.raises(UsageError, match=f"--task {name} takes no PROFILES"):
        registry.evaluate(asked(name, profiles=(Path("p"),)))


def test_what_is_shown_and_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(asked("dl", report=tmp_path, as_json=True), {"a": 1}, "a  1", page=True)
    text = (tmp_path / "evaluation.json").read_text()
    assert json.loads(text) == {"a": 1}
    assert capsys.readouterr().out == text
    assert (tmp_path / "report.md").read_text() == "```\na  1\n```\n"
    show(asked("dl"), {"a": 1}, "a  1", file=None)
    assert capsys.readouterr().out == "a  1\n"
