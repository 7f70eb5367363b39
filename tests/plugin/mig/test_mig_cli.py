"""``berth mig show``, ``plan`` and ``export``: what they print, and one sentence for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from berth.plugin import cli

FLEET = {
    "schema": "berth.mig-fleet/1",
    "as_of_s": 1000.0,
    "gpus": [
        {
            "name": "n1/0",
            "model": "A100-40GB",
            "layout": ["3g.20gb@0", "1g.5gb@4", "1g.5gb@5"],
            "running": [{"instance": "3g.20gb@0"}],
        },
        {"name": "n2/0", "model": "H100 PCIe", "layout": ["7g.80gb@0"]},
    ],
}
JOBS = {
    "schema": "berth.mig-jobs/1",
    "jobs": [
        {"name": "bert", "slices": [{"profile": "3g.20gb"}]},
        {"name": "whole", "slices": [{"profile": "7g.40gb"}]},
    ],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fleet.json").write_text(json.dumps(FLEET))
    (tmp_path / "jobs.json").write_text(json.dumps(JOBS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def berth(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    cli.main(["mig", *words])
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["mig", *words])
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


def test_show_lists_the_models_and_explains_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "A100-40GB" in berth(capsys, "show")
    one = berth(capsys, "show", "--gpu", "a100-sxm4-40gb")
    assert "723 layouts, 78 maximal" in one
    assert "3g.20gb@0 3g.20gb@4" in one
    profiles = json.loads(berth(capsys, "show", "--gpu", "A30", "--json"))["profiles"]
    assert [p["name"] for p in profiles if p["profile_id"] == 0] == ["4g.24gb"]


def test_show_says_what_still_fits_beside(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    shown = berth(capsys, "show", "--fleet", "fleet.json")
    assert "1g.10gb@6" in shown
    again = berth(capsys, "show", "--fleet", "fleet.json", "--json")
    assert json.loads(again)["gpus"][0]["name"] == "n1/0"


def test_plan_explains_itself_and_writes_a_document(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    shown = berth(
        capsys, "plan", "--fleet", "fleet.json", "--jobs", "jobs.json", "--output", "plan.json"
    )
    assert "jobs placed: 1, proven best" in shown
    assert "destroys 2 x 1g.5gb and creates 3g.20gb for 1 job; 3g.20gb in use" in shown
    assert "whole  beside what is running no GPU can make a 7g.40gb now" in shown
    document = json.loads((files / "plan.json").read_text())
    assert document["schema"] == "berth.mig-plan/1"
    assert document["gpus"][0]["after"] == ["3g.20gb@0", "3g.20gb@4"]
    printed = berth(capsys, "plan", "--fleet", "fleet.json", "--jobs", "jobs.json", "--json")
    assert json.loads(printed) == document


def test_a_fleet_and_jobs_may_be_toml(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    (files / "jobs.toml").write_text(
        'schema = "berth.mig-jobs/1"\n[[jobs]]\nname = "a"\n[[jobs.slices]]\nprofile = "1g.5gb"\n'
    )
    shown = berth(capsys, "plan", "--fleet", "fleet.json", "--jobs", "jobs.toml", "--no-recut")
    assert "instances re-cut: 0" in shown
    (files / "fleet.toml").write_text(
        'schema = "berth.mig-fleet/1"\n[[gpus]]\nname = "n1/0"\nmodel = "A100-40GB"\n'
        'layout = ["3g.20gb@0"]\n'
    )
    assert "3g.20gb@0" in berth(capsys, "show", "--fleet", "fleet.toml")


def test_export_writes_a_configuration_for_each_node(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    berth(capsys, "plan", "--fleet", "fleet.json", "--jobs", "jobs.json", "--output", "plan.json")
    data = yaml.safe_load(berth(capsys, "export", "plan.json", "--name", "all"))
    assert data["mig-configs"]["all-n1"] == [
        {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}
    ]
    flux = ("--scheduler", "flux", "--cores", "64")
    assert 'requires = ["mig-3g.20gb"]' in berth(capsys, "export", "plan.json", *flux)
    assert "needs no configuration" in refused(
        capsys, "export", "plan.json", "--scheduler", "slurm", "--cores", "64"
    )
    assert "go together" in refused(capsys, "export", "plan.json", "--cores", "64")
    berth(capsys, "export", "fleet.json", "--output", "mig.yaml")
    assert yaml.safe_load((files / "mig.yaml").read_text())["version"] == "v1"


def test_a_gpu_with_mig_off_is_in_no_plan(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    """A plan that named it would switch MIG on by mig-parted or --enable-mig."""
    gpus = [*FLEET["gpus"], {"name": "n2/1", "model": "H100 PCIe", "mig_enabled": False}]
    (files / "mixed.json").write_text(json.dumps({**FLEET, "gpus": gpus}))
    shown = berth(capsys, "plan", "--fleet", "mixed.json", "--jobs", "jobs.json",
                  "--output", "plan.json")  # fmt: skip
    assert "n2/1: MIG mode is off" in shown
    data = yaml.safe_load(berth(capsys, "export", "plan.json"))
    assert [entry["devices"] for entry in data["mig-configs"]["berth-n2"]] == [[0]]


def test_several_fleet_files_are_one_fleet(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    (files / "other.toml").write_text(
        'schema = "berth.mig-fleet/1"\n[[gpus]]\nname = "n3/0"\nmodel = "GB200"\n'
        'layout = ["1g.24gb@0"]\n'
    )
    both = ("--fleet", "fleet.json", "--fleet", "other.toml")
    assert "1g.23gb@0" in berth(capsys, "show", *both)
    assert "n3/0" in berth(capsys, "plan", *both, "--jobs", "jobs.json")
    same = ("--fleet", "fleet.json", "--fleet", "fleet.json", "--jobs", "jobs.json")
    assert "the GPU n1/0 is given twice" in refused(capsys, "plan", *same)
    assert '"1g.23gb": 1' in berth(capsys, "export", "other.toml")


def test_bad_input_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    plan = ("plan", "--fleet", "fleet.json", "--jobs", "jobs.json")
    assert "nearest: A100-40GB" in refused(capsys, "show", "--gpu", "A100-41GB")
    assert "exclude each other" in refused(capsys, "show", "--gpu", "A30", "--here")
    assert "is not a duration" in refused(capsys, *plan, "--horizon", "soon")
    assert "'speed' is not an objective" in refused(capsys, *plan, "--objective", "speed")
    assert "throughput on 3g.20gb is missing" in refused(capsys, *plan, "--objective", "throughput")
    assert "missing.json" in refused(
        capsys, "plan", "--fleet", "missing.json", "--jobs", "jobs.json"
    )
    (files / "wrong.json").write_text(json.dumps({**FLEET, "gpus": [{"name": "a", "model": "X"}]}))
    assert "wrong.json: gpus.0: no MIG geometry" in refused(
        capsys, "plan", "--fleet", "wrong.json", "--jobs", "jobs.json"
    )
    assert "no plan and no fleet file" in refused(capsys, "export", "jobs.json")


def test_show_here_without_a_driver_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["mig", "show", "--here"])
    assert stop.value.code in {1, 2}
    assert "Traceback" not in capsys.readouterr().err
