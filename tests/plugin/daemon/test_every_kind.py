"""A workload of every kind, added by the command line and placed by a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import toy_profiles
from berth_daemon import Harbour, RunningDaemon, fake_slurm, harbour, wait_until
from click.testing import CliRunner
from small_models import convolutional
from toy_configs import LLAMA

from berth.pilot.documents import to_json
from berth.plugin.cli.command_line import berth
from berth.policies.codes import Code

GPU = "a100-40gb"
POLICY = """
[policy]
allow_prior = true
may_raise_time_limit = true
max_interval_ratio = 1e6

[coverage]
"""
HISTORY = {
    "schema": "berth.history-workload/1",
    "name": "hist",
    "runs": [
        {"platform": "rome-7742", "cores": 1, "runtime_s": 4000, "peak_host_bytes": 2e9},
        {"platform": GPU, "cores": 8, "gpus": 1, "runtime_s": 200, "peak_gpu_bytes": 2e9},
    ],
    "runs_on": {"targets": ["cpu", "cuda"]},
}
SLICES = """
schema = "berth.slice-workload/1"
name = "resnet-slice"
gpu = "A100-40GB"
runtime_s = 600.0
[[points]]
batch = 128
step_s = 0.0296
[memory]
reserved_bytes = 4500000000
"""


@dataclass
class Everything:
    """A daemon on a store with one workload of each kind, each with a script."""

    site: Harbour
    daemon: RunningDaemon
    folder: Path


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp("every-kind")
    (folder / "triad.json").write_text(to_json(toy_profiles.profile("triad")))
    (folder / "net.onnx").write_bytes(convolutional(blocks=8, channels=16).SerializeToString())
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "hist.json").write_text(json.dumps(HISTORY))
    (folder / "slice.toml").write_text(SLICES)
    with harbour() as site, pytest.MonkeyPatch.context() as patch:
        text = site.write_site().read_text()
        site.site_file.write_text(text.replace("[coverage]", POLICY).replace("a100-80gb", GPU))
        patch.setenv("BERTH_SITE", str(site.site_file))
        for name, *words in (
            ("triad", "triad.json"),
            ("net", "net.onnx", "--batch", "1"),
            ("net-jobs", "net.onnx", "--name", "net-jobs", "--amount", "100000 steps"),
            (
                "net-training", "net.onnx", "--name", "net-training", "--mode", "training",
                "--amount", "2 epochs of 500 steps",
            ),
            ("llama", "config.json", "--name", "llama", "--batch", "8", "--tokens", "512,512"),
            ("hist", "hist.json"),
            ("resnet-slice", "slice.toml"),
        ):  # fmt: skip
            script = folder / f"{name}.sh"
            script.write_text(f"#!/bin/bash\nsrun ./{name}\n")
            file, options = folder / words[0], words[1:]
            done = CliRunner().invoke(
                berth, ["workload", "add", str(file), *options, "--script", str(script)]
            )
            assert done.exit_code == 0, (name, done.output, done.exception)
        daemon = site.start(path=fake_slurm(site.folder / "bin").tools)
        wait_until(lambda: daemon.stats()["forecasts"] == 7)
        yield Everything(site, daemon, folder)


FAMILY_OF = {
    "triad": "program",
    "net": "graph",
    "net-jobs": "graph",
    "net-training": "training_step",
    "llama": "language_model",
    "hist": "history",
    "resnet-slice": "slices",
}
KINDS = tuple(FAMILY_OF)
AS_GOOD_AS_WRITTEN = ("net-training", "triad")
"""Workloads that are best on the CPU nodes, which the partition auto has as well."""


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_placed_by_its_name_and_by_its_script(
    everything: Everything, name: str
) -> None:
    named = everything.daemon.decide(queue="auto", comment=f"berth:{name}")
    stays = name in AS_GOOD_AS_WRITTEN
    assert named["code"] == (Code.STAYS if stays else Code.PLACED), named
    assert named["action"] == ("keep" if stays else "edit")
    text = (everything.folder / f"{name}.sh").read_text()
    found = everything.daemon.decide(queue="auto", script=text)
    assert (found.get("edits"), found["code"]) == (named.get("edits"), named["code"])
    assert f"workload={name}" in found["stamp"]
    record = wait_until(lambda: everything.site.store().decisions.get(named["decision"]))
    assert record.workload == name
    family = json.loads(record.ranked)[0]["source"].partition(":")[0]
    assert family == FAMILY_OF[name]


@pytest.mark.parametrize("name", ["llama", "resnet-slice"])
def test_what_needs_a_gpu_gets_one(everything: Everything, name: str) -> None:
    reply = everything.daemon.decide(queue="auto", comment=f"berth:{name}")
    assert reply["edits"]["queue"] == "gpu"


@pytest.mark.parametrize(("name", "judged"), [("net", False), ("llama", False), ("hist", True)])
def test_a_time_limit_is_raised_only_where_the_amount_of_work_is_known(
    everything: Everything, name: str, judged: bool
) -> None:
    reply = everything.daemon.decide(
        queue="auto", comment=f"berth:{name}", time_limit_min=1, gpus=1
    )
    assert reply["code"] == Code.PLACED, reply
    assert ("time_limit_min" in reply["edits"]) is judged


def test_the_sentence_says_what_a_time_is_the_time_of(everything: Everything) -> None:
    per_step = everything.daemon.decide(queue="auto", comment="berth:net")["message"]
    whole = everything.daemon.decide(queue="auto", comment="berth:net-jobs")["message"]
    assert "step" in per_step
    assert "step" not in whole
