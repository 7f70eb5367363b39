"""``python -m lab``: the registry is true and lazy, options are those of the experiment."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from berth.pilot.errors import ToolMissing
from lab.__main__ import lab, main
from lab.experiments import command, registry
from lab.experiments.experiment import Options
from lab.experiments.registry import EXPERIMENTS, Experiment, Needs

OWN = [name for name, one in EXPERIMENTS.items() if not one.own_options]
TRAINED = [name for name, one in EXPERIMENTS.items() if one.trains]


def run(*words: object):
    return CliRunner().invoke(lab, [str(word) for word in words])


@pytest.mark.parametrize("name", OWN)
def test_an_experiment_does_what_its_line_says(name: str) -> None:
    experiment = EXPERIMENTS[name]
    if experiment.needs is not Needs.TRAIN:
        pytest.importorskip("torch", reason="needs the extra `deep`")
    if experiment.needs is Needs.LANGUAGE:
        pytest.importorskip("peft", reason="needs the extra `language`")
    module = importlib.import_module(experiment.module)
    for verb, offered in (("evaluate", True), ("train", bool(experiment.trains))):
        assert hasattr(module, verb) == offered
        if offered:
            assert len(inspect.signature(getattr(module, verb)).parameters) == 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_of_an_experiment_reaches_it(name: str) -> None:
    made = command.command(name, EXPERIMENTS[name])
    asked = {each.name for each in made.params} - {"arguments"}
    assert asked <= set(Options.__dataclass_fields__)


def test_the_list_and_each_help_import_no_experiment() -> None:
    modules = [one.module for one in EXPERIMENTS.values()]
    program = (
        "import sys\n"
        "from lab.__main__ import main\n"
        "main([])\n"
        f"for name in {OWN!r}:\n"
        "    main([name, '--help'])\n"
        f"print([m for m in {modules!r} + ['numpy', 'torch'] if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in EXPERIMENTS)


@pytest.mark.parametrize("name", [n for n in OWN if n not in TRAINED])
def test_what_trains_nothing_has_no_train(name: str) -> None:
    assert "No such option '--train'" in run(name, "--train", "b").output


def test_an_unknown_experiment_and_an_absent_library_are_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["alchemy"])
    assert stop.value.code == 2
    assert "No such command 'alchemy'" in capsys.readouterr().err
    monkeypatch.setitem(command._MODULES, Needs.DEEP, ("no_such_library",))
    with pytest.raises(ToolMissing) as missing:
        command.require(Needs.DEEP, "xamm")
    assert missing.value.hint == "pip install 'berth[deep]'"
    command.require(Needs.TRAIN, "relative")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Options:
    """An experiment called toy; what it was asked is in the list."""
    report = SimpleNamespace(
        text=lambda: "a  1",
        as_dict=lambda: {"a": 1},
        write=lambda folder: (folder / "evaluation.json").write_text('{"a": 1}'),
    )
    asked: list[Options] = []

    def evaluate(options: Options) -> object:
        asked.append(options)
        return report

    def train(options: Options) -> str:
        asked.append(options)
        return "an id"

    module = SimpleNamespace(evaluate=evaluate, train=train, main=len)
    monkeypatch.setitem(sys.modules, "toy_experiment", module)
    made = Experiment("toy_experiment", "a toy", "1 s", "a toy", ("seeds",))
    own = Experiment("toy_experiment", "a toy", "1 s", own_options=True)
    monkeypatch.setattr(registry, "EXPERIMENTS", {"toy": made, "own": own})
    monkeypatch.setattr(command, "EXPERIMENTS", registry.EXPERIMENTS)
    return asked


def test_a_report_is_printed_or_written(toy: list[Options], tmp_path: Path) -> None:
    assert run("toy", "--seed", 3, "--seeds", 2).output == "a  1\n"
    assert list(toy[-1].every_seed) == [3, 4]
    assert toy[-1].unfinished is None
    assert json.loads(run("toy", "--json", "--report", tmp_path).output) == {"a": 1}
    assert (tmp_path / "evaluation.json").is_file()
    assert toy[-1].unfinished == tmp_path / "folds"


def test_training_says_what_was_written(toy: list[Options], tmp_path: Path) -> None:
    assert run("toy", "--train", tmp_path / "b").output == f"an id\nwritten to {tmp_path / 'b'}\n"
    assert toy[-1].bundle == tmp_path / "b"


def test_a_module_with_options_of_its_own_gets_all_words(toy: list[Options]) -> None:
    assert run("own", "--help", "--anything", 1).exit_code == 3


def test_names_are_words() -> None:
    assert all(name == name.lower().replace("_", "-") for name in EXPERIMENTS)
    assert isinstance(lab, click.Group)
