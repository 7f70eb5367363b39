"""Nobody is told what is predicted: onnxruntime's telemetry is off before it can start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SERVING = """
from berth.predictor.families.program import bundle
bundle.load()
"""
MEASURING = """
from berth.pilot.dl import onnx_engine
onnx_engine.onnxruntime.SessionOptions()
"""


@pytest.mark.parametrize("script", [SERVING, MEASURING])
def test_no_device_id_and_no_database_are_left_in_the_home(tmp_path, script: str) -> None:
    hidden = {"CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "XDG_CACHE_HOME"}
    told = {k: v for k, v in os.environ.items() if k not in hidden} | {"HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=told, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []
