"""The planner's files: read back as written, bad input named, those of docs/mig.md planned."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mig_strategies import gpu_states
from small_models import convolutional
from thorough import examples
from toy_configs import LLAMA

from berth.pilot.documents import parse_json, read_json, to_json, validate, write_json
from berth.pilot.errors import DocumentError
from berth.plugin import cli
from berth.policies.mig import GpuState, Layout, lookup
from berth.policies.mig.documents import (
    FleetDocument,
    JobsDocument,
    PlanDocument,
    check_profiles,
    demand_of,
    digest,
    fleet_document,
    plan_document,
    states_of,
)
from berth.policies.mig.planner import plan

PAGE = Path(__file__).resolve().parents[3] / "docs" / "mig.md"
FLEET: dict[str, Any] = {
    "schema": "berth.mig-fleet/1",
    "as_of_s": 1000.0,
    "gpus": [
        {
            "name": "n1/0",
            "uuid": "GPU-1",
            "model": "A100-40GB",
            "layout": ["3g.20gb@0", "1g.5gb@4"],
            "running": [{"instance": "3g.20gb@0", "free_at_s": 1600.0}],
        },
        {"name": "n1/1", "model": "NVIDIA A30"},
    ],
}
JOBS: dict[str, Any] = {
    "schema": "berth.mig-jobs/1",
    "jobs": [
        {"name": "bert", "count": 2, "slices": [{"profile": "2g.10gb", "throughput": 0.4}]},
        {"name": "tiny", "slices": [{"profile": "1g.6gb", "gpu": "A30", "throughput": 0.2}]},
    ],
}


def fleet(**changes: Any) -> FleetDocument:
    first = {**FLEET["gpus"][0], **changes}
    return validate({**FLEET, "gpus": [first, FLEET["gpus"][1]]}, FleetDocument, source="fleet")


def test_a_plan_is_read_back_as_written(tmp_path: Path) -> None:
    document = validate(FLEET, FleetDocument, source="fleet")
    states = states_of(document, source="fleet")
    planned = plan(
        states, [demand_of(job) for job in validate(JOBS, JobsDocument, source="jobs").jobs], "jobs"
    )
    written = plan_document(planned, document)
    write_json(tmp_path / "plan.json", written)
    again = read_json(tmp_path / "plan.json", PlanDocument)
    assert again == written
    assert again.fleet_digest == digest(states)
    assert again.gpus[0].uuid == "GPU-1"
    assert again.gpus[0].before == ("3g.20gb@0", "1g.5gb@4")


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(gpu_states(), min_size=1, max_size=3, unique_by=lambda s: s.geometry.gpu))
def test_a_fleet_is_read_back_as_written(states: list[GpuState]) -> None:
    named = [
        GpuState(f"n/{n}", s.geometry, s.layout, s.running, s.mig_enabled)
        for n, s in enumerate(states)
    ]
    text = to_json(fleet_document(named, as_of_s=5.0))
    again = states_of(parse_json(text, FleetDocument, source="fleet"), source="fleet")
    assert list(again) == named


def test_the_digest_changes_with_layouts_and_modes_only() -> None:
    a100 = lookup("A100-40GB")
    one = GpuState("g", a100, Layout.parse("1g.5gb@0"))
    assert digest([one]) != digest([GpuState("g", a100)])
    assert digest([one]) != digest([GpuState("g", a100, one.layout, mig_enabled=False)])
    two = GpuState("h", a100)
    assert digest([one, two]) == digest([two, one])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": "A100-41GB"}, "gpus.0: no MIG geometry is known for the GPU 'A100-41GB'"),
        ({"layout": ["3g.20gb@1"]}, "gpus.0: the layout 3g.20gb@1 is impossible on A100-40GB"),
        ({"layout": ["3g.20gb"]}, "gpus.0: '3g.20gb' is not an instance"),
        ({"layout": ["3g.20gb@²"]}, "gpus.0: '3g.20gb@²' is not an instance"),
        (
            {"layout": ["3g.20gb@" + "9" * 25]},
            f"gpus.0: '3g.20gb@{'9' * 25}' is not an instance",
        ),
        ({"layout": []}, "gpus.0: n1/0: 3g.20gb@0 is said to be busy but does not exist"),
        ({"running": [{"instance": "-"}]}, "gpus.0: names a running instance without saying"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused_by_entry(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(DocumentError) as error:
        states_of(fleet(**changes), source="fleet.json")
    assert error.value.message.startswith(f"fleet.json: {problem}")


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({**FLEET, "gpus": []}, "gpus"),
        ({**FLEET, "gpu": []}, "gpu"),
        ({**FLEET, "schema": "berth.mig-jobs/1"}, "schema"),
        ({**FLEET, "schema": "berth.mig-fleet/2"}, "schema"),
        ({**FLEET, "gpus": [{"name": "", "model": "A30"}]}, "gpus.0.name"),
        ({**FLEET, "gpus": [{"name": "a", "model": "A30", "layouts": []}]}, "gpus.0.layouts"),
        ({**FLEET, "gpus": [{"name": "a", "model": 30}]}, "gpus.0.model"),
    ],
)
def test_fleet_files_with_wrong_keys_are_refused_by_name(data: dict[str, Any], key: str) -> None:
    with pytest.raises(DocumentError) as error:
        parse_json(json.dumps(data), FleetDocument, source="fleet.json")
    assert error.value.key == key


@pytest.mark.parametrize(
    ("job", "key"),
    [
        ({"name": "a", "slices": []}, "jobs.0"),
        ({"name": "a", "slices": [{"profile": "1g.5gb"}], "workload": "b"}, "jobs.0"),
        ({"slices": [{"profile": "1g.5gb"}]}, "jobs.0"),
        ({"name": "a", "count": 0, "slices": [{"profile": "1g.5gb"}]}, "jobs.0.count"),
        (
            {"name": "a", "slices": [{"profile": "1g.5gb", "runtime_s": -1}]},
            "jobs.0.slices.0.runtime_s",
        ),
        ({"name": "a", "slices": [{"profil": "1g.5gb"}]}, "jobs.0.slices.0.profil"),
    ],
)
def test_job_files_with_wrong_values_are_refused_by_name(job: dict[str, Any], key: str) -> None:
    with pytest.raises(DocumentError) as error:
        parse_json(json.dumps({**JOBS, "jobs": [job]}), JobsDocument, source="jobs.json")
    assert error.value.key == key


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"profile": "1g.7gb"}, "no GPU of the fleet has a MIG profile '1g.7gb'"),
        ({"profile": "1g.5gb", "gpu": "A30"}, "A30 has no MIG profile '1g.5gb'"),
        ({"profile": "1g.5gb", "gpu": "B999"}, "no MIG geometry is known for the GPU 'B999'"),
    ],
)
def test_a_misspelt_slice_is_an_error_not_a_job_left_over(
    entry: dict[str, str], problem: str
) -> None:
    jobs = validate({**JOBS, "jobs": [{"name": "a", "slices": [entry]}]}, JobsDocument, source="j")
    states = states_of(fleet(), source="fleet")
    with pytest.raises(DocumentError) as error:
        check_profiles(jobs, states, source="jobs.json")
    assert error.value.message == f"jobs.json: jobs.0.slices.0: {problem}"


def test_the_pages_fleet_and_jobs_make_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = {json.loads(b)["schema"]: b for b in re.findall(r"```json\n(.*?)```", text, re.S)}
    (tmp_path / "fleet.json").write_text(blocks["berth.mig-fleet/1"])
    for name in ("gpu01", "gpu02"):
        other = blocks["berth.mig-fleet/1"].replace("gpu01/", f"{name}-a/")
        (tmp_path / f"{name}.json").write_text(other)
    (tmp_path / "jobs.json").write_text(blocks["berth.mig-jobs/1"])
    onnx.save(convolutional(blocks=8, channels=64), tmp_path / "resnet50.onnx")
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    lines = [x.split()[1:] for x in re.findall(r"^    (berth mig .*)$", text, re.M)]
    assert len(lines) >= 6
    for words in lines:
        if "--here" not in words:
            if words[1] == "export":
                assert words[2] in {"plan.json", "fleet.json"}
            cli.main(words)
    shown = capsys.readouterr().out
    assert "jobs placed (priority 1): 1, proven best" in shown
    assert "destroy 1g.5gb@5 after the end of 1g.5gb@5" in shown or "after the end of" not in shown
    assert (tmp_path / "mig.yaml").read_text().startswith("version: v1\n")
