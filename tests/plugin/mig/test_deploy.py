"""The files in deploy/ that a site copies are valid."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError
from berth.plugin.mig.settings import read_settings
from berth.plugin.slurm.mig.node import SlurmNode

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def test_the_example_settings_are_accepted_and_leave_the_trigger_off() -> None:
    settings = read_settings(DEPLOY / "berth-mig.toml")
    assert isinstance(settings.node, SlurmNode)
    assert not settings.trigger.enabled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('state_dir = "here"', "absolute path"),
        ("[slurm]\nnode = 'a b'", "slurm.node"),
        ("[slurms]\nnode = 'a'", "slurms: is not a known key"),
        ("[flux]\nnode = 'a'", "flux: Berth does not cut the GPUs of nodes under Flux"),
        ("[slurm]\nnode='n'\nslurm_conf='/a'\ngres_conf='/b'\nrestart_node=['x']\n"
         "restart_controller=['/x']", "absolute path"),
        ("[trigger]\nmin_gain = -1", "trigger.min_gain"),
        ("[helper]\nsockets = 'x'", "did you mean|not a known key"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_sentence_that_names_the_key(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "mig.toml"
    path.write_text(f'schema = "berth.mig/1"\n{text}\n')
    with pytest.raises(DocumentError, match=message):
        read_settings(path)


def test_the_task_prolog_names_the_mig_devices(tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    devices.write_text("0 MIG-a\n1 -\n2 MIG-c\n10 MIG-k\n")

    def said(**variables: str) -> str:
        done = subprocess.run(
            [DEPLOY / "berth-mig-task-prolog"],
            env={"PATH": os.environ["PATH"], "BERTH_MIG_DEVICES": str(devices), **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert said(SLURM_JOB_GPUS="2") == "export CUDA_VISIBLE_DEVICES=MIG-c"
    assert said(SLURM_JOB_GPUS="0,2", SLURM_STEP_GPUS="0,10").endswith("=MIG-a,MIG-k")
    assert said(SLURM_JOB_GPUS="1") == said() == said(BERTH_MIG_DEVICES="/none") == ""


@pytest.mark.parametrize("name", ["berth-mig-epilog", "berth-usage-epilog"])
def test_the_epilogs_never_fail_and_say_nothing(name: str) -> None:
    done = subprocess.run(
        [DEPLOY / name],
        env={"PATH": "/none", "SLURM_JOB_ID": "7"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_units_are_valid() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NO systemd-analyze HERE")
    units = sorted(DEPLOY.glob("berth-mig*.service")) + sorted(DEPLOY.glob("berth-mig*.timer"))
    units += sorted(DEPLOY.glob("berth-mig*.socket"))
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    complaints = [
        line
        for line in done.stderr.splitlines()
        if "berth-mig" in line and not re.search("is not executable|No such file", line)
    ]
    assert complaints == []
