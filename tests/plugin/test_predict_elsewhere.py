"""``berth predict`` with runs of the program on other platforms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run
from toy_profiles import profile

from berth.pilot.documents import write_json

FEW = ("--platform", "v100-pcie-32gb", "--platform", "mi50-32gb", "--platform", "p100-16gb")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.json"
    write_json(path, profile("kernel", bytes_moved=2e7, flops=2e9))
    return path


@pytest.fixture
def there(tmp_path: Path) -> Path:
    path = tmp_path / "kernel-v100.json"
    write_json(path, profile("kernel-v100", platform="v100-pcie-32gb", runtime_s=0.01))
    return path


def predictions(capsys: pytest.CaptureFixture[str]) -> dict[str, dict]:
    found = json.loads(capsys.readouterr().out)["predictions"]
    return {p["platform"]: p for p in found}


def test_a_known_run_is_measured_and_the_other_platforms_stay(here, there, capsys) -> None:
    run("predict", here, "--json", *FEW)
    before = predictions(capsys)
    assert run("predict", here, there, "--json", *FEW) == 0
    after = predictions(capsys)
    assert after["v100-pcie-32gb"]["basis"] == "measured"
    assert after["v100-pcie-32gb"]["runtime_s"]["mid"] == pytest.approx(0.01)
    known = after["v100-pcie-32gb"]
    assert known["speedup"]["mid"] == pytest.approx(
        before["v100-pcie-32gb"]["speedup"]["mid"]
        * before["v100-pcie-32gb"]["runtime_s"]["mid"]
        / 0.01
    )
    assert known["abstained"] is None
    assert after["mi50-32gb"] == before["mi50-32gb"]


def test_runs_of_the_same_program_are_found_in_the_store(here, there, tmp_path, capsys) -> None:
    store = tmp_path / "store.db"
    assert run("site", "store", "upgrade", "--store", store) == 0
    assert run("workload", "add", there, "--store", store) == 0
    write_json(
        tmp_path / "other.json",
        profile("other", platform="mi50-32gb", runtime_s=1.0).model_copy(
            update={"workload": profile().workload.model_copy(update={"command": ("other",)})}
        ),
    )
    assert run("workload", "add", tmp_path / "other.json", "--store", store) == 0
    capsys.readouterr()
    assert run("predict", here, "--json", "--store", store, *FEW) == 0
    found = predictions(capsys)
    assert found["v100-pcie-32gb"]["basis"] == "measured"
    assert found["mi50-32gb"]["basis"] == "prior"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("missing", "does not exist"),
        ("here", "was itself measured on 'epyc-genoa-vm'"),
        ("failed", "did not complete"),
        ("larger", "ran size"),
        ("unknown", "not a known platform"),
    ],
)
def test_bad_runs_are_one_sentence(here, there, tmp_path, capsys, given, said) -> None:
    gpu = "v100-pcie-32gb"
    own = profile("kernel", platform=gpu, runtime_s=1.0)
    workload = own.workload.model_copy(update={"size": (own.workload.size or 1.0) * 2})
    files = {
        "failed": profile("failed", platform=gpu, runtime_s=1.0, exit_status=1),
        "larger": own.model_copy(update={"workload": workload}),
        "unknown": profile("unknown", platform="nowhere", runtime_s=1.0),
    }
    paths = {"here": here, "there": there, "missing": tmp_path / "none.json"}
    for name, document in files.items():
        paths[name] = tmp_path / f"{name}.json"
        write_json(paths[name], document)
    assert run("predict", here, paths[given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_a_run_with_other_cores_than_asked_for_is_said(here, tmp_path, capsys) -> None:
    path = tmp_path / "quartz.json"
    write_json(path, profile("kernel-quartz", platform="quartz", runtime_s=0.02, threads=4))
    assert run("predict", here, path, "--platform", "quartz", "--cores", 8) == 2
    assert "with 4 cores, not 8" in capsys.readouterr().err


def test_two_runs_of_one_platform_are_refused(here, there, capsys) -> None:
    assert run("predict", here, there, there) == 2
    assert "two profiles are of 'v100-pcie-32gb'" in capsys.readouterr().err
