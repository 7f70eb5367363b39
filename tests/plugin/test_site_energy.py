"""Power and objectives in the site file: read, defaulted, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_profiles
from click.testing import CliRunner

from berth.pilot.documents import to_json
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.command_line import berth
from berth.plugin.site import load_site
from berth.policies.objectives import OBJECTIVES

SCHEMA = 'schema = "berth.site/1"\n'
PLACES = """
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "batch"
[[candidates]]
name = "gpu"
platform = "h100-80gb"
partition = "gpu"
gres = "gpu:h100"
gpus_per_node = 4
cores_per_node = 64
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "berth.toml"
    path.write_text(SCHEMA + text + PLACES)
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        load_site(write(folder, text))
    assert "\n" not in caught.value.message
    return f"{caught.value.message}; {caught.value.hint}"


def test_power_is_the_candidates_else_the_platforms(tmp_path: Path) -> None:
    site = load_site(write(tmp_path, ""))
    cpu, gpu = site.candidates
    rome, h100 = site.platforms["rome-7742"], site.platforms["h100-80gb"]
    assert rome.power_w is not None
    assert cpu.power_per_core_w == pytest.approx(rome.power_w / rome.cores)
    assert cpu.power_per_gpu_w is None
    assert (gpu.power_per_gpu_w, gpu.power_per_core_w) == (h100.power_w, None)
    text = """
[energy]
carbon_g_per_kwh = 380
[[platforms]]
name = "h100-80gb"
power_w = 600
"""
    cpu, gpu = load_site(write(tmp_path, text)).candidates
    assert gpu.power_per_gpu_w == pytest.approx(600)
    own = PLACES + "power_per_gpu_w = 450\npower_per_core_w = 3\n"
    path = tmp_path / "own.toml"
    path.write_text(SCHEMA + text + own)
    gpu = load_site(path).candidates[1]
    assert (gpu.power_per_gpu_w, gpu.power_per_core_w) == (450.0, 3.0)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[energy]\ncarbon_per_kwh = 2\n", "carbon_g_per_kwh"),
        ('[policy]\nobjective = "deadlines"\n', "did you mean 'deadline'"),
        ("[policy]\ndeadline_limits = 0\n", "policy.deadline_limits"),
        ("[policy.weights]\nenergy = -1\n", "policy.weights.energy"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    assert wrong in refused(tmp_path, text)


def test_what_the_site_says_reaches_the_policy(tmp_path: Path) -> None:
    text = """
[policy]
objective = "deadline"
deadline_limits = 1.5
[policy.weights]
energy = 0.25
"""
    policy = load_site(write(tmp_path, text)).policy
    assert (policy.deadline_limits, policy.weights.energy) == (1.5, 0.25)


@pytest.mark.parametrize("name", OBJECTIVES.own())
def test_place_explains_every_objective_term_by_term(name: str, tmp_path: Path) -> None:
    profile = tmp_path / "triad.json"
    profile.write_text(to_json(toy_profiles.profile("triad")))
    words = [
        "place",
        str(profile),
        "--policy",
        name,
        "--finish-within",
        "6h",
        "--explain",
        "--demo",
    ]
    done = CliRunner().invoke(berth, [*words, "--", "./x"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"policy {name}," in done.stdout
    assert f"{name} (smaller is better)" in done.stdout
    shown = {"least-energy": "mean power", "deadline": "latest start"}
    assert shown.get(name, "") in done.stdout


@pytest.mark.parametrize("text", ["soon", "0s", ""])
def test_a_deadline_that_is_no_duration_is_refused(text: str, tmp_path: Path) -> None:
    profile = tmp_path / "triad.json"
    profile.write_text(to_json(toy_profiles.profile("triad")))
    words = ["place", str(profile), "--finish-within", text, "--demo", "--", "./x"]
    done = CliRunner().invoke(berth, words)
    assert isinstance(done.exception, UsageError)
    assert "--finish-within" in done.exception.message
