"""Rendering, berth site init and place on a Flux that answers what a test tells it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fake_commands import FakeCommands
from fake_flux import recorded_flux, state
from flux_bench import recorded
from flux_daemon import SITE

from berth.pilot.errors import BerthError, DocumentError, SchedulerError
from berth.plugin.cli.site.init import init
from berth.plugin.flux.cli import flux as flux_command
from berth.plugin.flux.filter import FILTER_PATH
from berth.plugin.flux.submit_command import flux_submit
from berth.plugin.report.known_job import decision_of_job
from berth.plugin.scheduler import Job
from berth.plugin.site import load_site
from berth.plugin.store import Store
from berth.policies.values import Edit, Request, Resources

PROGRAM = Job(("./a.out", "x y"), is_script=False, comment="berth:lu@2000")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    return recorded_flux(tmp_path / "flux", monkeypatch)


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(SITE.format(mode="enforce", folder=tmp_path, user=0, daemon="", refresh_s=1))
    return path


def asked(**changes: object) -> Request:
    values: dict[str, object] = {"user": "ada", "account": None, "resources": Resources(0, 4, 2)}
    return Request(**{**values, **changes})  # type: ignore[arg-type]


# The command line


def test_the_request_alone() -> None:
    assert flux_submit(PROGRAM, asked(account="physics", time_limit_s=90.5), None) == (
        "flux", "submit", "--ntasks=4", "--cores-per-task=2", "--time-limit=91s", "--bank=physics",
        "--setattr=user.berth.workload=lu@2000", "./a.out", "x y",
    )  # fmt: skip


def test_the_edit_wins_and_gpus_are_shared_out() -> None:
    edit = Edit("gpu", "h200", "gpu:2", resources=Resources(2, 4, 8, 4), time_limit_s=3600.0)
    words = flux_submit(PROGRAM, asked(queue="auto", wants_placement=True), edit)
    assert words[2:9] == (
        "--queue=gpu", "--requires=h200", "--nodes=2", "--ntasks=4", "--cores-per-task=8",
        "--gpus-per-task=1", "--time-limit=3600s",
    )  # fmt: skip


def test_a_script_goes_by_flux_batch() -> None:
    words = flux_submit(Job(("job.sh", "1"), is_script=True), asked(), None)
    assert words == ("flux", "batch", "--nslots=4", "--cores-per-slot=2", "job.sh", "1")


@pytest.mark.parametrize("name", ["12", "1e5", "true", "null", '"x"'])
def test_a_profiles_name_is_never_read_as_a_number(name: str) -> None:
    words = flux_submit(Job(("a",), False, f"berth:{name}"), asked(), None)
    value = next(w for w in words if "setattr" in w).partition("workload=")[2]
    assert json.loads(value) == (name if name != '"x"' else "x")


def test_what_flux_has_no_words_for_is_refused() -> None:
    with pytest.raises(SchedulerError, match="QOS"):
        flux_submit(PROGRAM, asked(qos="high"), None)
    edit = Edit("gpu", None, "gpu:1", resources=Resources(1, 2, 1, 1))
    with pytest.raises(SchedulerError, match="cannot be shared") as refused:
        flux_submit(PROGRAM, asked(), edit)
    assert "--tasks" in (refused.value.hint or "")


def test_the_anonymous_queue_is_not_named() -> None:
    assert not any("queue" in w for w in flux_submit(PROGRAM, asked(), Edit(queue="anonymous")))


# berth site init


def run_init(*arguments: str) -> Any:
    return CliRunner().invoke(init, ["--scheduler", "flux", *arguments])


def test_a_site_file_is_written_and_accepted(fake: FakeCommands, tmp_path: Path) -> None:
    fake.says("state", json.dumps(state(owner="root")))
    output = tmp_path / "berth.toml"
    done = run_init("--output", str(output))
    assert done.exit_code == 0, done.output
    site = load_site(output)
    assert (site.scheduler, site.name, site.reference_queue) == ("flux", "node", "cpu")
    assert site.daemon.scheduler_users == ("root",)
    cpu, gpu = site.candidates
    assert (cpu.queue, cpu.nodes, cpu.cores_per_node) == ("cpu", 2, 4)
    assert (gpu.queue, gpu.platform, gpu.gres, gpu.gpus_per_node) == ("gpu", "h200-141gb", "gpu", 2)
    assert 'requires = ["cpunode"]' in done.output
    assert 'auto_queue = "auto"' in done.output


def test_slices_are_known_by_their_property(fake: FakeCommands, tmp_path: Path) -> None:
    config = recorded("rpc_config.get")
    config["queues"]["gpu"]["requires"] = ["mig-1g.10gb"]
    resources = recorded("rpc_resource.sched-status")
    everything = resources["all"]["execution"]
    everything["properties"] = {"cpunode": "0-1", "mig-1g.10gb": "2-3", "h100": "2-3"}
    fake.says("state", json.dumps(state(**{"config.get": config, "owner": "root"})))
    fake.says(
        "state",
        json.dumps(
            state(**{"config.get": config, "resource.sched-status": resources, "owner": "root"})
        ),
    )
    output = tmp_path / "berth.toml"
    assert run_init("--output", str(output)).exit_code == 0
    assert [c.platform for c in load_site(output).candidates][1:] == ["h100-mig-1g.10gb"]


def test_only_flux_here_means_flux(fake: FakeCommands, tmp_path: Path) -> None:
    fake.says("state", json.dumps(state(owner="root")))
    (fake.tools / "sinfo").unlink(missing_ok=True)
    done = CliRunner().invoke(init, ["--dry-run", "--output", str(tmp_path / "x.toml")])
    if "sinfo" not in done.output and done.exit_code == 0:
        assert 'scheduler = "flux"' in done.output


# The site file's words


def test_either_word_for_a_queue_is_understood(site_file: Path) -> None:
    text = site_file.read_text()
    theirs = load_site(site_file)
    site_file.write_text(text.replace("auto_queue", "auto_quay"))
    with pytest.raises(DocumentError):
        load_site(site_file)
    site_file.write_text(text.replace("queue =", "partition ="))
    assert load_site(site_file).candidates == theirs.candidates
    site_file.write_text(text.replace('queue = "cpu"', 'queue = "cpu"\npartition = "cpu"'))
    with pytest.raises(DocumentError):
        load_site(site_file)


def test_flux_counts_all_gpus_as_gpu(site_file: Path) -> None:
    text = site_file.read_text()
    site_file.write_text(text.replace('queue = "gpu"', 'queue = "gpu"\ngres = "gpu:h200"'))
    with pytest.raises(DocumentError, match="gres"):
        load_site(site_file)


# berth site flux, berth jobs decisions --job


def test_the_filters_configuration_is_toml_that_flux_reads(site_file: Path) -> None:
    done = CliRunner().invoke(flux_command, ["filter-config", "--site", str(site_file)])
    assert done.exit_code == 0, done.output
    table = tomllib.loads(done.output)["ingest"]["frobnicator"]
    assert table["plugins"] == [str(FILTER_PATH), "defaults", "constraints"]
    assert table["berth"]["socket"] == str(site_file.parent / "berth.sock")
    assert table["berth"]["auto_queue"] == "auto"
    path = CliRunner().invoke(flux_command, ["filter-path"]).output.strip()
    assert Path(path) == FILTER_PATH


def test_a_jobs_decision_is_found_by_its_stamp(fake: FakeCommands, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    spec = recorded("n1")
    spec["attributes"]["user"] = {"berth": {"decision": "berth/1 id=1m7y4 action=edit"}}
    fake.says("jobspec", json.dumps(spec))
    assert decision_of_job(store, "ƒ2Ppor5M") == "1m7y4"
    fake.says("jobspec", json.dumps(recorded("n1")))
    with pytest.raises(BerthError, match="no decision"):
        decision_of_job(store, "f2Ppor5M")
    with pytest.raises(BerthError, match="not a job id"):
        decision_of_job(store, "0OIl")
