"""``predict``, ``place``, the store and the filter's forecast give one number for one question."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import toy_profiles
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_models import convolutional
from toy_configs import LLAMA

from berth.pilot.documents import to_json
from berth.plugin.cli.command_line import berth
from berth.plugin.report.terminal import APART
from berth.predictor.hardware import platforms as catalogue

PLATFORMS = (
    "rome-7742", "epyc-genoa-vm", "quartz", "a100-40gb", "a100-80gb", "h100-80gb", "lassen-v100",
    "h200-141gb",
)  # fmt: skip
KINDS = {
    "triad.json": (),
    "net.onnx": ("--batch", "4"),
    "step.onnx": ("--mode", "training", "--batch", "4"),
    "config.json": ("--batch", "8"),
}
GPU = """
gres = "gpu:{name}"
gpus_per_node = 1
cores_per_node = 32
[candidates.translation]
gpus = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    (made / "triad.json").write_text(to_json(toy_profiles.profile("triad")))
    for name in ("net.onnx", "step.onnx"):
        model = convolutional(blocks=8, channels=16)
        (made / name).write_bytes(model.SerializeToString())
    (made / "config.json").write_text(json.dumps(LLAMA))
    return made


def site_of(folder: Path, names: list[str]) -> Path:
    """A site whose candidates are these platforms, in this order."""
    known = catalogue.load()
    text = 'schema = "berth.site/1"\n[policy]\nallow_prior = true\nmax_interval_ratio = 1e9\n'
    for name in names:
        text += f'[[candidates]]\nname = "{name}"\nplatform = "{name}"\npartition = "{name}"\n'
        text += GPU.format(name=name) if known[name].is_gpu else "cores_per_node = 1024\n"
    path = folder / "berth.toml"
    path.write_text(text)
    return path


def run(*words: object) -> dict[str, Any]:
    done = CliRunner().invoke(berth, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def time_of(row: dict[str, Any]) -> float:
    """Middle of the predicted time; of a language model the time of a token."""
    if "tokens_per_s" in row:
        tokens = row["tokens_per_s"]
        return math.nan if tokens is None else 1152 / tokens["mid"]
    return float((row.get("runtime_s") or row["step_s"])["mid"])


@cache
def predicted(folder: Path, name: str, asked: tuple[str, ...] = ()) -> dict[str, float]:
    options = [word for one in asked for word in ("--platform", one)]
    found = run("predict", folder / name, *KINDS[name], *options, "--json")
    return {row["platform"]: time_of(row) for row in found["predictions"]}


@pytest.mark.parametrize("name", list(KINDS))
@given(asked=st.lists(st.sampled_from(PLATFORMS), min_size=1, max_size=4, unique=True))
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whoever_asks_and_whatever_beside_it(folder: Path, name: str, asked: list[str]) -> None:
    known = catalogue.load()
    if name == "config.json" and not any(known[one].is_gpu for one in asked):
        return
    whole = predicted(folder, name)
    some = [one for one in asked if one in whole]
    few = predicted(folder, name, tuple(some))
    assert few == pytest.approx({one: whole[one] for one in some}, nan_ok=True)
    site = site_of(folder, asked)
    for row in run(
        "place", folder / name, *KINDS[name], "--site", site, "--no-state", "--json", "--", "./x"
    )["ranked"]:
        here = whole.get(row["platform"])
        if row["runtime_s"] is None or here is None or math.isnan(here):
            continue
        cores = row["resources"]["cpus_per_task"] * row["resources"]["tasks"]
        if known[row["platform"]].is_gpu:
            assert row["runtime_s"]["mid"] == pytest.approx(here, rel=1e-9), row
        elif name == "triad.json":
            at = run(
                "predict", folder / name, "--platform", row["platform"], "--cores", cores, "--json"
            )
            assert row["runtime_s"]["mid"] == pytest.approx(time_of(at["predictions"][0]), rel=1e-9)


@pytest.mark.parametrize("name", list(KINDS))
def test_the_store_holds_the_same_number(folder: Path, name: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/berth.db"
    run("workload", "add", folder / name, *KINDS[name], "--name", "one", "--store", store, "--json")
    shown = run("workload", "show", "one", "--store", store, "--json")["forecast"]["predictions"]
    whole = predicted(folder, name)
    gpus = [
        row for row in shown if row["gpus"] and not math.isnan(whole.get(row["platform"], math.nan))
    ]
    assert gpus
    for row in gpus:
        # Six digits are stored.
        assert row["runtime_s"]["mid"] == pytest.approx(whole[row["platform"]], rel=1e-5)


@pytest.mark.parametrize("name", list(KINDS))
def test_rows_that_nobody_acts_on_stand_below(folder: Path, name: str) -> None:
    done = CliRunner().invoke(berth, ["predict", str(folder / name), *KINDS[name]])
    assert done.exit_code == 0, done.exception
    above, line, below = done.stdout.partition(APART)
    assert line
    for word in ("prior", "(abstains)"):
        assert f" {word}\n" not in above
    assert "prior" in below
