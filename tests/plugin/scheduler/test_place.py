"""berth place: the decision, why, the alternatives and the line; by hand and as the filter."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_commands import FakeCommands

from berth.pilot.documents import write_json
from berth.pilot.errors import BerthError
from berth.pilot.platform import Platform
from berth.pilot.profile import Invocation, Profile, Provenance, RunsOn, Runtime, Target
from berth.plugin.cli.place import command
from berth.plugin.forecasting import forecaster_for
from berth.plugin.report.terminal import APART
from berth.predictor.core import workload as berth_workload
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.sizes import SizeGrowth

SITE = """
schema = "berth.site/1"
[site]
auto_partition = "auto"
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "cpu"
price_per_core_hour = 0.001
[[candidates]]
name = "gpu"
platform = "h100-80gb"
partition = "gpu"
gres = "gpu:h100"
gpus_per_node = 4
cores_per_node = 64
instruction_sets = ["avx2"]
price_per_gpu_hour = 3
[candidates.translation]
gpus = 1
cpus_per_gpu = 8
"""


class FakeForecaster:
    """Forecasts what the test says: GPUs 2 s, scaled, CPUs 40 s / cores, calibrated."""

    gpu_basis = Basis.SCALED

    def forecast(
        self,
        profile: berth_workload.Workload,
        platforms: Mapping[str, Platform],
        known: Mapping[str, Platform] | None = None,
        *,
        reference: str | None = None,
    ) -> Forecast:
        return Forecast(
            workload=profile.name,
            kind="program",
            digest="sha256:lu",
            bundle="sha256:fake",
            targets=tuple(t.value for t in profile.runs_on.targets),
            architecture="x86_64",
            instruction_sets=("avx2",),
            threads=1,
            ranks=1,
            gpus=0,
            container=None,
            reference_platform=profile.document.platform,
            reference_runtime_s=40.0,
            sizes=SizeGrowth(None, 1e9),
            curves={name: self._curve(p) for name, p in platforms.items()},
        )

    def _curve(self, platform: Platform) -> PredictionCurve:
        points = []
        for units in (1, 2, 4) if platform.is_gpu else (1, 4, 16, 64):
            seconds = (2.0 if platform.is_gpu else 40.0) / units
            points.append(
                Prediction(
                    workload="lu",
                    platform=platform.name,
                    cores=0 if platform.is_gpu else units,
                    gpus=units if platform.is_gpu else 0,
                    basis=self.gpu_basis if platform.is_gpu else Basis.CALIBRATED,
                    speedup=Interval(10 / seconds, 40 / seconds, 80 / seconds),
                    runtime_s=Interval(seconds / 2, seconds, seconds * 2),
                    memory=MemoryUse(
                        Interval(1e9, 1e9, 1.2e9),
                        Interval(1e9, 1e9, 1.2e9) if platform.is_gpu else None,
                    ),
                    energy_j=None,
                    bound=Bound.MEMORY,
                )
            )
        return PredictionCurve(tuple(points))


@pytest.fixture(autouse=True)
def fake_predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "forecaster_for", lambda *_: FakeForecaster())
    monkeypatch.delenv("BERTH_SITE", raising=False)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    made = Profile(
        schema="berth.profile/1",
        name="lu",
        platform="rome-7742",
        workload=Invocation(command=("./lu", "big one")),
        runs_on=RunsOn(targets=(Target.CPU, Target.CUDA), threads=4),
        runtime=Runtime(median_s=10.0, spread_s=0.1, repeats_s=(10.0,)),
        peak_memory_bytes=1e9,
        counters={},
        provenance=Provenance(created="2026-01-01T00:00:00Z", berth_version="0"),
    )
    write_json(tmp_path / "lu.json", made)
    return str(tmp_path / "lu.json")


@pytest.fixture
def site(tmp_path: Path) -> str:
    path = tmp_path / "berth.toml"
    path.write_text(SITE + f'[daemon]\nstore = "sqlite:///{tmp_path}/berth.db"\n')
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.place, arguments)


def answer(*arguments: str) -> dict[str, Any]:
    done = run("--json", *arguments)
    assert done.exit_code == 0, done.exception
    found: dict[str, Any] = json.loads(done.output)
    return found


def refusal(*arguments: str) -> BerthError:
    done = run(*arguments)
    assert isinstance(done.exception, BerthError), done.output
    return done.exception


def test_the_demo_site_is_used_where_it_is_asked_for(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeForecaster, "gpu_basis", Basis.PRIOR)
    assert "no site file" in str(refusal(profile))
    done = run(profile, "--demo")
    assert done.exit_code == 0
    assert "Decision: " in done.output
    assert "PRIOR ONLY" in done.output
    above, below = done.output.split(APART)
    assert "PRIOR ONLY" not in above
    assert "calibrated" not in below
    assert "site demo" in done.output
    assert len(answer(profile, "--demo")["ranked"]) >= 5


def test_text_has_the_reason_the_alternatives_and_the_line(profile: str, site: str) -> None:
    done = run(profile, "--site", site, "--no-state", "--partition", "cpu")
    assert "cpu (4 cores of rome-7742) is predicted fastest: 10 s" in done.output
    assert "[other-queue] you chose cpu" in done.output
    line = next(line for line in done.output.splitlines() if "sbatch" in line)
    assert shlex.split(line) == [
        "sbatch", "--partition=cpu", "--ntasks=1", "--cpus-per-task=4", "--comment=berth:lu",
        "--wrap=./lu 'big one'",
    ]  # fmt: skip


def test_a_script_is_given_with_its_arguments(profile: str, site: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    found = answer(profile, "--site", site, "--no-state", "--", str(script), "-n", "x y")
    assert found["command"][-3:] == [str(script), "-n", "x y"]
    assert "--gres=gpu:h100:1" in found["command"]


def test_json_is_the_decision(profile: str, site: str) -> None:
    found = answer(profile, "--site", site, "--no-state", "--policy", "cheapest")
    assert found["schema"] == "berth.decision/1"
    assert (found["chosen"], found["code"], found["policy"]) == ("cpu", "placed", "cheapest")
    assert found["edit"]["queue"] == "cpu"
    assert found["job_id"] is None
    assert [r["candidate"] for r in found["ranked"]] == ["cpu", "gpu"]


def test_explain_shows_what_each_score_is_made_of(profile: str, site: str) -> None:
    words = ("--site", site, "--no-state", "--policy", "balanced")
    text = run(profile, *words, "--explain").output
    assert "balanced (smaller is better)" in text
    assert "predicted time 2 s, cost 0.00" in text
    assert "MADE OF" not in run(profile, *words).output
    terms = answer(profile, *words)["terms"]
    assert terms["gpu"][0] == {"name": "predicted time", "value": 2.0, "unit": "s"}


def test_an_unknown_objective_is_refused_with_the_nearest(profile: str) -> None:
    wrong = refusal(profile, "--policy", "cheepest")
    assert wrong.message == "there is no objective 'cheepest'"
    assert (wrong.hint or "").startswith("did you mean 'cheapest'?")


def test_by_hand_a_prior_comes_last_and_strictly_it_is_ruled_out(
    profile: str, site: str, slurm: FakeCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeForecaster, "gpu_basis", Basis.PRIOR)
    by_hand = answer(profile, "--site", site)
    assert [(r["candidate"], r["guess"]) for r in by_hand["ranked"]] == [
        ("cpu", False), ("gpu", True),
    ]  # fmt: skip
    alone = run(profile, "--site", site, "--partition", "gpu")
    assert "WARNING: prior only" in alone.output
    strict = answer(profile, "--site", site, "--strict")
    assert strict["chosen"] == "cpu"
    assert strict["ranked"][1]["code"] == "prior-only"


def test_the_shape_of_the_request_is_taken(profile: str, site: str) -> None:
    found = answer(
        profile, "--site", site, "--no-state", "--partition", "cpu", "--tasks", "300",
        "--cpus-per-task", "1", "--mem", "10G", "--time-limit", "2h", "--account", "physics",
        "--qos", "high", "--user", "ada",
    )  # fmt: skip
    assert found["ranked"][0]["resources"]["nodes"] == 3
    options = {"--mem=10240M", "--time=120", "--account=physics", "--qos=high"}
    assert options <= set(found["command"])


def test_an_unreadable_state_is_a_note_by_hand_and_rules_out_strictly(
    profile: str, site: str, slurm: FakeCommands
) -> None:
    slurm.fails("partition", "Unable to contact slurm controller (connect failure)")
    by_hand = answer(profile, "--site", site)
    assert by_hand["chosen"] == "gpu"
    assert "The present state is not known" in by_hand["notes"][0]
    strict = answer(profile, "--site", site, "--strict", "--policy", "cheapest")
    assert strict["chosen"] is None
    assert strict["command"] is None


def test_submit_runs_the_line_and_prints_the_job(
    profile: str, site: str, slurm: FakeCommands
) -> None:
    slurm.says("sbatch", "77\n")
    done = run(profile, "--site", site, "--submit", "--", "./lu", "1")
    assert "Submitted as job 77." in done.output
    submitted = slurm.calls[-1]
    assert submitted.startswith("sbatch --parsable --partition=gpu --gres=gpu:h100:1")
    assert answer(profile, "--site", site, "--submit", "--", "./lu")["job_id"] == "77"


def test_slurms_refusal_is_passed_on(profile: str, site: str, slurm: FakeCommands) -> None:
    slurm.fails("sbatch", "sbatch: error: Batch job submission failed: Invalid account")
    error = refusal(profile, "--site", site, "--submit", "--", "./lu")
    assert "Invalid account" in error.message
    assert error.exit_status == 1


def test_where_nothing_fits_nothing_is_submitted(
    profile: str, site: str, slurm: FakeCommands
) -> None:
    error = refusal(profile, "--site", site, "--partition", "none", "--submit", "--", "./lu")
    assert error.message.startswith("not submitted: ")
    assert not any(call.startswith("sbatch") for call in slurm.calls)
    done = run(profile, "--site", site, "--partition", "none")
    assert done.exit_code == 0
    assert "leave the job as it is  [other-queue]" in done.output
    assert "sbatch" not in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--demo", "--submit", "--", "x"), "the demo site is not a cluster"),
        (("--site", "SITE", "--submit"), "there is nothing to submit"),
        (("--site", "none.toml"), "none.toml: does not exist"),
        (("--demo", "--time-limit", "soon"), "is not a duration"),
        (("--demo", "--mem", "lots"), "is not a memory size"),
        (("--demo", "--size", "nan"), "is not a problem size"),
        (("--demo", "--size", "-3"), "is not a problem size"),
    ],
)
def test_wrong_usage_is_a_sentence_and_status_2(
    profile: str, site: str, arguments: tuple[str, ...], says: str
) -> None:
    error = refusal(profile, *(site if a == "SITE" else a for a in arguments))
    assert says in error.message
    assert error.exit_status == 2


def test_a_profile_may_be_named_from_the_store(profile: str, site: str, tmp_path: Path) -> None:
    from berth.plugin.store import Store, WorkloadRecord

    store = Store.open(f"sqlite:///{tmp_path}/berth.db")
    store.add(WorkloadRecord("lu", "program", "d", Path(profile).read_text(), "ada", 0.0))
    store.close()
    assert answer("lu", "--site", site, "--no-state")["workload"] == "lu"
    assert "nor a workload of that name" in refusal("xy", "--site", site, "--no-state").message


def test_a_profile_from_an_unknown_machine_ties_no_prediction_to_its_time(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "forecaster_for", forecaster_for)
    text = Path(profile).read_text().replace('"rome-7742"', '"my-laptop"')
    Path(profile).write_text(text)
    assert "measured on 'my-laptop', of which there is no platform" in run(profile, "--demo").output
    counted = json.loads(Path(profile).read_text())
    counted["counters"] = {
        name: {"value": 1e9, "quality": "measured", "source": "test"}
        for name in (
            "instructions",
            "fp64_ops",
            "loads",
            "stores",
            "branches",
            "int_ops",
            "l1_load_misses",
            "llc_load_misses",
        )
    }
    Path(profile).write_text(json.dumps(counted))
    assert "measured on 'my-laptop', of which there is no platform" in run(profile, "--demo").output


def test_a_broken_profile_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"schema": "berth.profile/1", "name": 3}')
    assert "p.json" in refusal(str(path), "--demo").message
