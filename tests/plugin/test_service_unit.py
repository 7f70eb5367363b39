"""The systemd unit: read by systemd itself, and no laxer than it was."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "deploy" / "berth.service"
WORST_EXPOSURE = 2.0

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="NOT CHECKED: systemd-analyze is not installed"
)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists here."""
    made = tmp_path / "berth.service"
    made.write_text(UNIT.read_text().replace("/opt/berth/bin/berth", sys.executable))
    return made


def test_systemd_finds_no_fault_in_the_unit(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "berth.service" in line]
    assert ours == []


def test_the_unit_stays_hardened(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level[^:]*: ([0-9.]+)", done.stdout)
    if found is None:
        pytest.skip("this systemd-analyze cannot look at a file offline")
    assert float(found[1]) <= WORST_EXPOSURE
