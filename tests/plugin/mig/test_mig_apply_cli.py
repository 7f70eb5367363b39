"""``berth mig apply`` and ``assert`` as a user types them, on the fake fleet."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_nvml import FakeFleet
from scenes import BESIDE_RUNNING as SCENE

from berth.pilot.documents import to_json
from berth.plugin.cli import main
from berth.plugin.mig.nvml import Nvml
from berth.policies.mig import GpuState, Layout, lookup
from berth.policies.mig.documents import (
    GpuPlanEntry,
    PlanDocument,
    fleet_document,
)

BERTH = Path(sys.executable).parent / "berth"
CONFIG = 'schema = "berth.mig/1"\nstate_dir = "{folder}/state"\n'
PARTED = """\
version: v1
mig-configs:
  small:
    - devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb": 4
        "3g.20gb": 1
  other-cards:
    - device-filter: "0x233010DE"
      devices: all
      mig-enabled: true
      mig-devices:
        "7g.80gb": 1
"""


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Cli:
    """The command line, in this process: the fake fleet's faults are this process's, too."""

    def __init__(self, fleet: FakeFleet, folder: Path) -> None:
        self.folder = folder
        config = folder / "mig.toml"
        config.write_text(CONFIG.format(folder=folder))
        self.environment = {
            **os.environ, **fleet.environment, "BERTH_MIG_CONFIG": str(config),
        }  # fmt: skip

    def __call__(self, *words: object) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(["mig", *map(str, words)])
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def start(self, *words: object, faults: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BERTH, "mig", *map(str, words)],
            env={**self.environment, "FAKE_NVML_FAULTS": faults},
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def plan(self, before: str, after: str, *, name: str = "0", uuid: str | None = None) -> Path:
        entry = GpuPlanEntry(
            name=name, model="A100-40GB", uuid=uuid, before=tuple(before.split()),
            after=tuple(after.split()), why="because", placements=(),
        )  # fmt: skip
        plan = PlanDocument(
            fleet_digest="x", as_of_s=0, solver="table", reached=(), gpus=(entry,), steps=(),
            unplaced=(), summary=(),
        )  # fmt: skip
        return self.write("plan.json", to_json(plan))


@pytest.fixture
def cli(fleet: FakeFleet, state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    SCENE.set_up(fleet)
    found = Cli(fleet, state_folder)
    monkeypatch.setenv("BERTH_MIG_CONFIG", found.environment["BERTH_MIG_CONFIG"])
    return found


HALF_READ = "nvmlDeviceGetGpuInstances:1:fail:6"
"""A reading while another process destroys what is read."""
OLD, NEW = SCENE.old[0], SCENE.new[0]


def test_without_yes_it_says_what_it_would_do_and_does_nothing(cli: Cli, fleet: FakeFleet) -> None:
    look = fleet.layout()
    done = cli("apply", cli.plan(OLD, NEW))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "GPU 0  NVIDIA A100-SXM4-40GB",
        "  destroy    2g.10gb@2",
        "  create     1g.5gb@2 1g.5gb@3",
        "  stays      1g.5gb@0 1g.5gb@1 3g.20gb@4",
        "Nothing was changed; --yes does it.",
    ]
    assert fleet.layout() == look


def test_with_yes_it_is_done_and_assert_agrees(cli: Cli, fleet: FakeFleet) -> None:
    plan = cli.plan(OLD, NEW)
    before = cli("assert", plan)
    assert before.returncode == 1
    assert "plan.json says: 1 of 1 GPU" in before.stderr
    done = cli("apply", plan, "--yes")
    assert done.returncode == 0, done.stderr
    assert "The new layout stands." in done.stdout
    assert fleet.layout() == SCENE.looks_new
    assert cli("assert", plan).returncode == 0
    again = cli("apply", plan, "--yes")
    assert (again.returncode, "Nothing had to be changed." in again.stdout) == (0, True)


def test_undo_goes_back_to_before_the_last_apply_and_forth_again(
    cli: Cli, fleet: FakeFleet
) -> None:
    nothing = cli("apply", "--undo")
    assert (nothing.returncode, "nothing to undo" in nothing.stderr) == (2, True)
    before = fleet.layout()
    cli("apply", cli.plan(OLD, NEW), "--yes")
    shown = cli("apply", "--undo")
    assert "  destroy    1g.5gb@2 1g.5gb@3" in shown.stdout.splitlines()
    assert fleet.layout() == SCENE.looks_new
    assert cli("apply", "--undo", "--yes").returncode == 0
    assert fleet.layout() == before
    forth = cli("apply", "--undo", "--yes")
    assert "from before the last apply stands" in forth.stdout
    assert "drain" not in forth.stderr + forth.stdout
    assert fleet.layout() == SCENE.looks_new


def test_a_mig_parted_file_is_placed_around_what_runs(cli: Cli, fleet: FakeFleet) -> None:
    file = cli.write("mig.yaml", PARTED)
    assert cli("assert", file, "-c", "small").returncode == 1
    done = cli("apply", file, "-c", "small", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "new"
    assert fleet.layout() == SCENE.looks_new
    assert fleet.touched == 0
    assert json.loads(cli("assert", file, "-c", "small", "--json").stdout)["holds"] is True


def test_a_configuration_for_other_cards_concerns_nothing(cli: Cli, fleet: FakeFleet) -> None:
    done = cli("apply", cli.write("mig.yaml", PARTED), "-c", "other-cards", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Nothing had to be changed.")


def test_an_interrupted_apply_is_ended_by_resume(cli: Cli, fleet: FakeFleet) -> None:
    plan = cli.plan(OLD, NEW)
    fault = "nvmlDeviceCreateGpuInstanceWithPlacement:2:kill"
    with cli.start("apply", plan, "--yes", faults=fault) as killed:
        assert killed.wait() < 0
    for words in (("apply", "--undo"), ("apply", plan)):
        assert "`berth mig apply --resume` ends it" in cli(*words).stderr
    done = cli("apply", "--resume")
    assert done.returncode == 0, done.stderr
    assert "rolled back" in done.stdout
    assert cli("assert", cli.plan(NEW, OLD)).returncode == 0
    assert "Nothing had to be changed" in cli("apply", "--resume").stdout


def test_what_is_in_use_is_refused_and_said_beforehand(cli: Cli, fleet: FakeFleet) -> None:
    plan = cli.plan(OLD, "7g.40gb@0")
    look = fleet.layout()
    shown = cli("apply", plan)
    assert shown.returncode == 1
    assert "in use!    1g.5gb@1 3g.20gb@4" in shown.stdout
    done = cli("apply", plan, "--yes", "--wait", "0.2s")
    assert done.returncode == 1
    assert "waiting for at most " in done.stderr
    assert ": 1g.5gb@1 on GPU 0 is in use by process" in done.stderr
    assert "--wait 30m" in done.stderr
    assert (fleet.layout(), fleet.touched) == (look, 0)


def test_a_failure_is_told_in_one_sentence_and_rolled_back(cli: Cli, fleet: FakeFleet) -> None:
    look = fleet.layout()
    fleet.faults("nvmlGpuInstanceCreateComputeInstance:1:fail:23")
    done = cli("apply", cli.plan(OLD, NEW), "--yes")
    assert done.returncode == 1
    assert "the layout is what it was before" in done.stderr
    assert "Traceback" not in done.stderr
    assert fleet.layout() == look


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("7g.40gb@0", NEW, "is older than the fleet"),
        (OLD, "3g.20gb@0 4g.20gb@4", "may start at memory slice"),
        (OLD, "9g.1gb@0", "has no MIG profile"),
        (OLD, "1g.5gb", "is not an instance"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(
    cli: Cli, fleet: FakeFleet, before: str, after: str, message: str
) -> None:
    look = fleet.layout()
    done = cli("apply", cli.plan(before, after), "--yes")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert fleet.layout() == look


@pytest.mark.parametrize(
    ("name", "text", "config", "message"),
    [
        ("mig.yaml", PARTED, "", "has 2 configurations"),
        ("mig.yaml", PARTED, "none", "has no configuration 'none'"),
        ("mig.yaml", PARTED.replace("devices: all", "gpus: all"), "small", "gpus"),
        ("mig.yaml", PARTED.replace(": 4", ": 9"), "small", "cannot hold"),
        ("mig.yaml", PARTED.replace("devices: all", "devices: [3]"), "small", "device 3"),
        ("mig.yaml", "[", "", "not YAML"),
        ("plan.json", "{", "", "not JSON"),
        ("plan.json", '{"schema": "berth.mig-plan/9"}', "", "newer"),
    ],
)
def test_a_bad_file_is_refused(cli: Cli, name: str, text: str, config: str, message: str) -> None:
    chosen = ("-c", config) if config else ()
    done = cli("apply", cli.write(name, text), *chosen, "--yes")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (cli.folder / "state" / "apply.journal").exists()


def test_a_plan_for_another_node_is_refused_and_one_for_this_node_is_not(
    cli: Cli, fleet: FakeFleet
) -> None:
    other = cli("apply", cli.plan(OLD, NEW, name="elsewhere/0"), "--yes")
    assert other.returncode == 2
    assert "plans no GPU of" in other.stderr
    unknown = cli("apply", cli.plan(OLD, NEW, uuid="GPU-other"), "--yes")
    assert "has no GPU GPU-other" in unknown.stderr
    assert fleet.layout() != SCENE.looks_new


def test_mig_off_is_refused_unless_told_to_switch_it_on(cli: Cli, fleet: FakeFleet) -> None:
    fleet.reset("h100-80", mig=False)
    plan = cli.plan("", "3g.40gb@0 3g.40gb@4")
    done = cli("apply", plan, "--yes")
    assert done.returncode == 2
    assert "MIG is off on GPU 0" in done.stderr
    assert "--enable-mig" in done.stderr
    assert cli("apply", plan, "--yes", "--enable-mig").returncode == 0
    assert {s.profile for s in fleet.seen()} == {"3g.40gb"}
    fleet.reset("a100-40", mig=False)
    needs_reset = cli("apply", cli.plan("", "3g.20gb@0"), "--yes", "--enable-mig")
    assert "only by a reset of the GPU" in needs_reset.stderr


def test_no_permission_is_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML_OWNER", str(os.geteuid() + 1))
    done = cli("apply", cli.plan(OLD, NEW), "--yes")
    assert done.returncode == 1
    assert "privileged user" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_appliers_at_once_one_is_refused(cli: Cli, fleet: FakeFleet) -> None:
    plan = cli.plan(OLD, NEW)
    with cli.start("apply", plan, "--yes", faults="nvmlGpuInstanceDestroy:1:hang") as first:
        assert first.stderr is not None
        try:
            for line in first.stderr:
                if "destroy" in line:
                    break
            second = cli("apply", plan, "--yes")
            assert second.returncode == 1
            assert f"another apply is under way (process {first.pid})" in second.stderr
            for words in (("apply", plan, "--yes"), ("apply", plan), ("show", "--here")):
                fleet.faults(HALF_READ)
                half_read = cli(*words)
                assert half_read.returncode == 1
                assert f"another apply is under way (process {first.pid})" in half_read.stderr
                assert "NVML" not in half_read.stderr
        finally:
            first.kill()
    assert cli("apply", "--resume").returncode == 0


def test_gpus_that_another_apply_has_just_cut_are_read_again(cli: Cli, fleet: FakeFleet) -> None:
    (cli.folder / "state").mkdir()
    (cli.folder / "state" / "lock").write_text("1\n")  # of an apply that has ended
    fleet.faults(HALF_READ)
    assert cli("show", "--here").returncode == 0
    fleet.faults(HALF_READ.replace(":1:", ":1+:"))
    lasting = cli("show", "--here")
    assert lasting.returncode == 1
    assert "NVML refused nvmlDeviceGetGpuInstances" in lasting.stderr


@pytest.mark.parametrize(
    "words",
    [("apply",), ("apply", "x.json", "--resume"), ("apply", "--resume", "--undo")],
)
def test_wrong_usage_is_said(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_fleet_read_here_feeds_the_planner(cli: Cli, fleet: FakeFleet) -> None:
    with Nvml() as nvml:
        states = [s for gpu in nvml.read() if (s := gpu.state(str(gpu.index))) is not None]
    document = fleet_document(states)
    assert document.gpus[0].layout == tuple(map(str, Layout.parse(OLD).instances))
    assert [r.instance for r in document.gpus[0].running] == ["1g.5gb@1", "3g.20gb@4"]
    assert GpuState("0", lookup(document.gpus[0].model), Layout.parse(OLD)).check()


def test_show_here_names_what_is_left_out_and_each_difference_once(
    cli: Cli, fleet: FakeFleet
) -> None:
    fleet.reset("h100-80", "h100-80", "v100")
    shown = cli("show", "--here").stdout
    assert shown.count("1g.10gb has 9.8 GiB by NVML") == 1
    assert "Left out: 2 (Tesla V100-SXM2-16GB: MIG impossible)" in shown
    fleet.reset("v100")
    refused = cli("show", "--here").stderr
    assert "MIG impossible" in refused
    assert "nvidia-smi" not in refused


def test_show_here_writes_the_fleet_that_plan_reads(cli: Cli) -> None:
    shown = cli("show", "--here", "--json")
    (gpu,) = json.loads(shown.stdout)["gpus"]
    assert gpu["name"] == f"{socket.gethostname().partition('.')[0]}/0"
    assert gpu["uuid"].startswith("GPU-")
    assert shown.returncode == 0, shown.stderr
    fleet_file = cli.write("fleet.json", shown.stdout)
    jobs = cli.write("jobs.json", json.dumps({
        "schema": "berth.mig-jobs/1",
        "jobs": [{"name": "small", "count": 3, "slices": [{"profile": "1g.5gb"}]}],
    }))  # fmt: skip
    plan = cli.folder / "made.json"
    made = cli("plan", "--fleet", fleet_file, "--jobs", jobs, "--output", plan)
    assert made.returncode == 0, made.stderr
    done = cli("apply", plan, "--yes")
    assert done.returncode == 0, done.stderr
    assert cli("assert", plan).returncode == 0
