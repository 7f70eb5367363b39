"""Bad input of every kind of workload: one sentence, exit status 2, nothing stored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import toy_profiles
from small_models import convolutional
from toy_configs import LLAMA

from berth.pilot.documents import to_json
from berth.pilot.profile import Target
from berth.plugin.cli import main
from berth.plugin.doctor.bundles import check_bundles
from berth.plugin.findings import Status
from berth.plugin.site import load_site
from berth.plugin.store import Store
from berth.plugin.workloads.files import WorkloadOptions, amount_text, parse_amount, read_file
from berth.predictor.core.bundle import SHIPPED_BUNDLES

MODEL = "berth.model-workload/1"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "triad.json").write_text(to_json(toy_profiles.profile("triad")))
    model = convolutional(blocks=2, channels=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    document = read_file(tmp_path / "net.onnx").document
    data = json.loads(to_json(document))
    (tmp_path / "model.json").write_text(json.dumps(data))
    data["graph"] = ["!!!! no base64 !!!!"]
    (tmp_path / "broken.json").write_text(json.dumps(data))
    data["graph"] = ["aGVsbG8="]
    (tmp_path / "other.json").write_text(json.dumps(data))
    (tmp_path / "unknown.json").write_text('{"schema": "berth.teapot/1", "name": "x"}')
    (tmp_path / "newer.json").write_text('{"schema": "berth.profile/2", "name": "x"}')
    (tmp_path / "nothing.json").write_text("{}")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "text.json").write_text("hello")
    (tmp_path / "notes.txt").write_text("hello")
    return tmp_path


def run(*words: object) -> int:
    try:
        main([str(word) for word in words])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *words: object) -> str:
    """What is said where adding fails; nothing may be in the store then."""
    store = f"sqlite:///{folder}/store.db"
    assert run("workload", "add", *words, "--store", store) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if (folder / "store.db").exists():
        opened = Store.open(store)
        assert opened.workloads() == []
        opened.close()
    return said


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("unknown.json", "'berth.teapot/1', which is no workload's"),
        ("newer.json", "berth.profile/2"),
        ("nothing.json", "names no schema"),
        ("list.json", "names no schema"),
        ("text.json", "is not JSON: Expecting value: line 1"),
        ("notes.txt", "is of no kind of workload that Berth knows"),
        ("absent.json", "does not exist"),
        ("broken.json", "does not hold a model graph"),
        ("other.json", "does not hold a model graph"),
    ],
)
def test_a_file_that_is_no_workload(
    files: Path, file: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, files, files / file)
    for command in (("predict",), ("place", "--demo")):
        assert run(*command, files / file) == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert "Traceback" not in shown


@pytest.mark.parametrize("seconds", [1e308, 1e31, 1e-308, -1.0, 0.0])
def test_a_time_that_no_program_takes(
    files: Path, seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = json.loads((files / "triad.json").read_text())
    profile["runtime"] |= {"median_s": seconds, "repeats_s": [seconds]}
    (files / "odd.json").write_text(json.dumps(profile))
    assert "runtime.median_s" in refused(capsys, files, files / "odd.json")


@pytest.mark.parametrize(
    "text", ["nan steps", "-5 steps", "0 steps", "inf steps", "1e99 steps", "x steps", "5",
             "5 apples", "5 steps more", "", "steps 5", "1e6tokens"],
)  # fmt: skip
def test_amounts_that_are_none(files: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--amount" in refused(capsys, files, files / "net.onnx", "--amount", text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("net.onnx", "--amount", "3 epochs"), "needs the steps of an epoch"),
        (("net.onnx", "--amount", "3 steps of 4 steps"), "steps mean nothing"),
        (("net.onnx", "--amount", "3 epochs of 4"), "not 'of N steps'"),
        (
            ("net.onnx", "--mode", "training", "--amount", "3 epochs of nan steps"),
            "not a positive number",
        ),
        (("net.onnx", "--amount", "10 tokens"), "in requests or steps"),
        (("net.onnx", "--mode", "training", "--amount", "10 requests"), "in epochs or steps"),
        (("config.json", "--amount", "10 steps"), "in requests or tokens"),
        (("net.onnx", "--mode", "training", "--precision", "fp8"), "fp8 is not predicted"),
        (("triad.json", "--parallel", "data=2"), "--parallel data means nothing for a program"),
        (("model.json", "--batch", "7"), "was counted at batch"),
        (("model.json", "--dim", "x=7"), "--dim is for a model's file"),
        (("triad.json", "--batch", "5"), "--batch means nothing for a program"),
        (("net.onnx", "--quantise", "int8"), "--quantise means nothing for a model graph"),
        (("triad.json", "--runs-on", "gpu"), "there are cpu, cuda, hip"),
        (("net.onnx", "--runtime", "2h"), "--runtime means nothing for a model graph"),
        (("net.onnx", "--runtime", "soon"), "--runtime"),
        (("net.onnx", "--name", "off"), "cannot be named 'off'"),
        (("net.onnx", "--name", "a b"), "name"),
    ],
)
def test_options_that_make_no_sense(
    files: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, files, files / words[0], *words[1:])


def test_a_named_bundle_of_another_kind_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", files / "net.onnx", "--bundle", SHIPPED_BUNDLES / "llm") == 2
    assert "predicts nothing of a model graph" in capsys.readouterr().err


def test_two_bundles_of_one_schema_are_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = files / "copy"
    shutil.copytree(SHIPPED_BUNDLES / "llm", copy)
    words = ("--bundle", SHIPPED_BUNDLES / "llm", "--bundle", copy)
    assert run("predict", files / "config.json", *words) == 2
    assert "are both of schema" in capsys.readouterr().err


def test_the_doctor_checks_the_bundles_of_the_site_file(files: Path) -> None:
    copy = files / "copy"
    shutil.copytree(SHIPPED_BUNDLES / "llm", copy)
    (files / "odd").mkdir()
    (files / "odd" / "manifest.json").write_text('{"schema": "of/another"}')
    named = [SHIPPED_BUNDLES / "llm", copy, files / "odd", files / "absent"]
    path = files / "berth.toml"
    path.write_text(
        f'schema = "berth.site/1"\n[predictor]\nbundles = {json.dumps([str(n) for n in named])}\n'
        '[[candidates]]\nname = "cpu"\nplatform = "rome-7742"\npartition = "cpu"\n'
    )
    found = list(check_bundles(load_site(path)))
    assert [one.status for one in found] == [Status.OK, Status.OK, *[Status.FAIL] * 3]
    texts = " ".join(one.text for one in found[2:])
    for said in ("are both of schema", "which no installed family reads", "not a bundle folder"):
        assert said in texts


def test_amounts_are_read_and_shown() -> None:
    assert amount_text(parse_amount("90 epochs", 500)) == "90 epochs of 500 steps"
    assert parse_amount("90 epochs", 500).steps == 45_000
    assert amount_text(parse_amount("1e6 tokens")) == "1e+06 tokens"
    assert amount_text(parse_amount("1 request")) == "1 request"


def test_copies_of_a_graph_are_its_gpus(files: Path) -> None:
    for gpus, held in ((4, 4), (1, 0)):
        made = read_file(
            files / "net.onnx", WorkloadOptions(data_parallel=gpus, runs_on=(Target.CUDA,))
        )
        assert (made.runs_on.gpus, made.runs_on.targets) == (held, (Target.CUDA,))
    plain = read_file(files / "net.onnx")
    assert plain.digest == read_file(files / "net.onnx", WorkloadOptions(data_parallel=1)).digest


def test_requests_of_a_graph_are_batches_of_them(files: Path) -> None:
    options = WorkloadOptions(batch=1, amount="10 requests")
    assert read_file(files / "net.onnx", options).amount.steps == 10


@pytest.mark.parametrize(
    ("file", "name"), [("_net.onnx", "net"), ("ä b.onnx", "b"), ("x" * 200 + ".onnx", "x" * 128)]
)
def test_a_files_name_becomes_a_name(files: Path, file: str, name: str) -> None:
    (files / file).write_bytes((files / "net.onnx").read_bytes())
    assert read_file(files / file).name == name


def test_the_same_document_by_file_and_by_graph(files: Path) -> None:
    assert read_file(files / "model.json").digest == read_file(files / "net.onnx").digest
