"""``berth mig recommend`` on the page's own file, and on files that are wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from every_kind import workloads
from small_models import convolutional
from toy_configs import LLAMA
from toy_profiles import profile

from berth.pilot.documents import to_json
from berth.plugin import cli
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.store import Store
from berth.plugin.workloads.filing import add_workload
from berth.predictor.core.workload import parse_workload

PAGE = Path(__file__).resolve().parents[3] / "docs" / "mig-recommend.md"


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for name, block in zip(("resnet.json", "gromacs.json"), blocks, strict=True):
        (tmp_path / name).write_text(block)
    onnx.save(convolutional(blocks=8, channels=64), tmp_path / "resnet50.onnx")
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "resnet.json"


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def fails(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


def test_the_pages_commands_run(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^    (berth mig recommend .*)$", text, re.M)
    lines = [command.split()[1:] for command in commands if "/history-" not in command]
    assert len(lines) == 6
    for words in lines:
        cli.main(words)
    shown = capsys.readouterr().out
    assert "Smallest: 1g.5gb." in shown


def test_json_holds_every_slice(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["mig", "recommend", "resnet.json", "--aim", "energy", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert [s["profile"] for s in data["slices"]] == [
        "1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb",
    ]  # fmt: skip
    assert data["smallest"] == "1g.5gb"
    assert all(s["slowdown"]["low"] <= s["slowdown"]["mid"] for s in data["slices"])
    assert data["slices"][0]["energy_j"]["mid"] > 0


def test_the_jobs_file_is_one_that_the_planner_takes(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["mig", "recommend", "resnet.json", "--jobs", "jobs.json", "--runtime", "2h",
              "--count", "3"])  # fmt: skip
    fleet = {"schema": "berth.mig-fleet/1", "gpus": [{"name": "n/0", "model": "A100-40GB"}]}
    Path("fleet.json").write_text(json.dumps(fleet))
    cli.main(["mig", "plan", "--fleet", "fleet.json", "--jobs", "jobs.json",
              "--objective", "jobs,makespan"])  # fmt: skip
    assert "jobs placed: 3" in capsys.readouterr().out


def test_only_the_fleets_slices_are_named(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = {"name": "n/0", "model": "A100-40GB", "layout": ["3g.20gb@4"]}
    other = {"name": "n/1", "model": "H100-80GB", "layout": ["1g.10gb@0"]}
    Path("fleet.json").write_text(json.dumps({"schema": "berth.mig-fleet/1", "gpus": [gpu, other]}))
    asked = ["mig", "recommend", "resnet.json", "--fleet", "fleet.json", "--json"]
    cli.main(asked)
    assert json.loads(capsys.readouterr().out)["best"] == "3g.20gb"
    elsewhere = fails([*asked, "--gpu", "H100-PCIE-80GB"], capsys)
    assert "the fleet has no H100-PCIE-80GB" in elsewhere
    cli.main([*asked, "--recut"])
    assert json.loads(capsys.readouterr().out)["best"] == "1g.5gb"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpu": "A101"}, "no MIG geometry is known"),
        ({"points": [{"batch": 128, "step_s": 0.03, "sm_utilization": 43}]}, "sm_utilization"),
        ({"memroy": {}}, "did you mean 'memory'"),
        ({"batch": 64}, "nothing was measured on the whole GPU at batch 64"),
        ({"probes": [{"profile": "9g.1gb", "batch": 128, "step_s": 0.1}]}, "9g.1gb"),
    ],
)
def test_a_wrong_file_is_a_sentence(
    workload: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], words: str
) -> None:
    edit(workload, **changes)
    assert words in fails(["mig", "recommend", "resnet.json"], capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--aim", "cost"], "price"),
        (["--gpu", "H100-80GB"], "measured on"),
        (["--recut"], "--fleet"),
        (["--latency-limit-ms", "-5"], "latency"),
        (["--count", "2"], "--jobs"),
        (["--jobs", "j.json", "--runtime", "soon"], "--runtime"),
        (["--aim", "best"], "best"),
    ],
)
def test_wrong_options_are_a_sentence(
    workload: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert words in fails(["mig", "recommend", "resnet.json", *options], capsys)
    assert not Path("j.json").exists()


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b'{"schema": NaN}'])
def test_what_is_no_document_is_a_sentence(
    workload: Path, capsys: pytest.CaptureFixture[str], raw: bytes
) -> None:
    workload.write_bytes(raw)
    assert "resnet.json" in fails(["mig", "recommend", "resnet.json"], capsys)


@pytest.mark.parametrize("kind", ["program", "inference", "training", "service", "history"])
def test_a_workload_of_every_kind_gets_a_slice_that_holds_it(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = workloads("quartz", "a100-40gb", "A100-40GB")[kind].document
    file = tmp_path / f"{kind}.json"
    data = json.loads(to_json(document))
    if kind == "program":
        data["runs_on"]["targets"] = ["cpu", "cuda"]
    file.write_text(json.dumps(data))
    asked = ["mig", "recommend", str(file), "--gpu", "A100-40GB", "--json"]
    for aim in (["smallest"], ["fastest"], ["throughput"], ["cost", "--price-per-hour", "3"]):
        cli.main([*asked, "--aim", *aim])
        data = json.loads(capsys.readouterr().out)
        assert data["unit"] == UNITS[kind]
        slices = {s["profile"]: s for s in data["slices"]}
        best = slices[data["best"]]
        assert best["memory_bytes"] >= best["need_bytes"]["high"]
        assert data["smallest"] in slices
        mids = [s["slowdown"]["mid"] for s in data["slices"]]
        assert min(mids) == pytest.approx(mids[-1]) == pytest.approx(1.0, abs=1e-6)
    assert (
        data["best"]
        == min(
            (s for s in data["slices"] if s["refused"] is None), key=lambda s: s["price"]["mid"]
        )["profile"]
    )


UNITS = {
    "program": "job", "inference": "batch", "training": "batch", "service": "request",
    "history": "job",
}  # fmt: skip


def test_the_pages_simulation_has_its_measured_slices_and_the_time_of_its_job(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["mig", "recommend", "gromacs.json", "--json"])
    shown = json.loads(capsys.readouterr().out)
    slices = {one["profile"]: one for one in shown["slices"]}
    assert (shown["smallest"], slices["1g.5gb"]["basis"]) == ("1g.5gb", "measured")
    assert slices["2g.10gb"]["job_s"]["mid"] == pytest.approx(2 * 86400)
    cli.main(["mig", "recommend", "gromacs.json"])
    assert "A JOB" in capsys.readouterr().out


def test_a_gpu_without_a_platform_file_is_taken_by_its_data_sheet(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {}
    for gpu in ("H20", "GH200", "A30"):
        cli.main(["mig", "recommend", "llama/config.json", "--gpu", gpu, "--json"])
        slices = json.loads(capsys.readouterr().out)["slices"]
        assert {one["basis"] for one in slices} == {"prior"}
        times[gpu] = slices[-1]["time_s"]["mid"]
    assert times["H20"] > times["GH200"]


def test_a_program_for_cpus_only_gets_no_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = json.loads(to_json(profile("app")))
    data["runs_on"]["targets"] = ["cpu"]
    Path("app.json").write_text(json.dumps(data))
    fleet = {"schema": "berth.mig-fleet/1", "gpus": [{"name": "n/0", "model": "A100-40GB"}]}
    Path("fleet.json").write_text(json.dumps(fleet))
    for words in (
        ["mig", "recommend", "app.json", "--gpu", "A100-40GB"],
        ["mig", "plan", "--fleet", "fleet.json", "--workload", "app.json=2"],
    ):
        assert "app runs on cpu, slices of A100-40GB on cuda" in fails(words, capsys)


def test_a_workload_of_the_store_is_taken_by_its_name(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", f"sqlite:///{tmp_path}/berth.db"]
    cli.main(["workload", "add", "llama/config.json", "--name", "served", *store])
    capsys.readouterr()
    cli.main(["mig", "recommend", "served", "--gpu", "A100-40GB", *store])
    assert "served on slices of A100-40GB" in capsys.readouterr().out
    assert "options are for files" in fails(
        ["mig", "recommend", "served", "--batch", "2", "--gpu", "A100-40GB", *store], capsys
    )
    for absent in ("other", "alice/history-other-1a2b3c"):
        assert "no workload named" in fails(["mig", "recommend", absent, *store], capsys)
    assert "absent.json" in fails(["mig", "recommend", "absent.json", *store], capsys)


def test_a_history_is_taken_by_the_name_that_the_list_prints_and_by_its_gpu_memory(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu, url = "a100-40gb", f"sqlite:///{tmp_path}/berth.db"
    runs = [
        {"platform": gpu, "cores": 8, "gpus": 1, "runtime_s": 600 + n, "peak_host_bytes": 60e9}
        for n in range(3)
    ]
    document = {"schema": "berth.history-workload/1", "name": "infer", "runs": runs,
                "runs_on": {"targets": ["cuda"]}}  # fmt: skip
    name = "alice/history-infer-1a2b3c"
    store, forecaster = Store.open(url), forecaster_for(None)

    def add() -> None:
        known = parse_workload(json.dumps(document), source="runs")
        add_workload(store, replace(known, name=name), forecaster=forecaster,
                     platforms=platforms_for(None), owner="alice", replace=True)  # fmt: skip

    def recommended(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        cli.main(["mig", "recommend", *words, "--gpu", "A100-40GB", "--store", url, "--json"])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    add()
    found = recommended(name)
    assert found["gpu_memory_bytes"] is None
    assert found["smallest"] == "7g.40gb", "only the whole GPU is known to hold it"
    assert {s["refused"] for s in found["slices"][:-1]} == {"its GPU memory is not known"}
    for run in runs:
        run["peak_gpu_bytes"] = 3e9
    add()
    assert recommended(name)["smallest"] == recommended("history-infer-1a2b3c")["smallest"]
    assert recommended(name)["smallest"] == "1g.5gb"
    store.close()


def test_which_gpu_model_must_be_known(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--gpu" in fails(["mig", "recommend", "llama/config.json"], capsys)
    assert "were not published" in fails(
        ["mig", "recommend", "llama/config.json", "--gpu", "RTX-PRO-5000"], capsys
    )
    asked = ["mig", "recommend", "llama/config.json", "--gpu", "A100-40GB"]
    assert "several GPUs" not in fails([*asked, "--latency-limit-ms", "5"], capsys)
