"""The systemd units: read by systemd itself, hardened, under a user of their own (S7)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = (
    "berth",
    "berth-users",
    "berth-metrics",
    "berth-prune",
    "berth-collect",
    "berth-history",
    "berth-check",
    "berth-mig-auto",
)
"""Those that need no root. The MIG helper and the end of an interrupted apply cut GPUs as root."""
TIMERS = ("berth-prune", "berth-collect", "berth-history", "berth-check", "berth-mig-auto")
WORST_EXPOSURE = {"berth-mig-helper@": 5.0}
"""``systemd-analyze security``'s figure that a unit stays under; 2.0 for those without root."""

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="NOT CHECKED: systemd-analyze is not installed"
)


@pytest.fixture(params=SERVICES)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit with a program that exists here."""
    text = (DEPLOY / f"{request.param}.service").read_text()
    made = tmp_path / f"{request.param}.service"
    made.write_text(text.replace("/opt/berth/bin/berth", sys.executable))
    return made


def test_systemd_finds_no_fault_in_the_unit(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert ours == []


@pytest.mark.parametrize("name", [*SERVICES, "berth-mig-helper@"])
def test_the_unit_stays_hardened(name: str) -> None:
    unit = DEPLOY / f"{name}.service"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level[^:]*: ([0-9.]+)", done.stdout)
    if found is None:
        pytest.skip("this systemd-analyze cannot look at a file offline")
    assert float(found[1]) <= WORST_EXPOSURE.get(name, 2.0)


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.service")), ids=lambda path: path.stem)
def test_the_units_page_is_an_installed_one(path: Path) -> None:
    [page] = re.findall(
        r"^Documentation=file:///opt/berth/share/doc/berth/(.*)$", path.read_text(), re.M
    )
    assert (DEPLOY.parent / "docs" / page).is_file()


def test_the_user_is_berths_own_and_its_state_nobody_elses(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    assert "User=berth" in lines
    assert {"StateDirectoryMode=0700", "UMask=0077"} <= set(lines)
    assert any(line.startswith("MemoryMax=") for line in lines)


def test_the_schedulers_socket_is_in_a_closed_folder_and_the_users_in_another() -> None:
    daemon = (DEPLOY / "berth.service").read_text().splitlines()
    users = (DEPLOY / "berth-users.service").read_text().splitlines()
    assert {"RuntimeDirectory=berth", "RuntimeDirectoryMode=0750"} <= set(daemon)
    assert {"RuntimeDirectory=berth-users", "RuntimeDirectoryMode=0755"} <= set(users)


@pytest.mark.parametrize("name", TIMERS)
def test_timers_are_understood(name: str, tmp_path: Path) -> None:
    for kind in ("timer", "service"):
        text = (DEPLOY / f"{name}.{kind}").read_text()
        (tmp_path / f"{name}.{kind}").write_text(
            text.replace("/opt/berth/bin/berth", sys.executable)
        )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / f"{name}.timer")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in (done.stdout + done.stderr).splitlines() if name in line] == []


def test_the_system_user_and_the_folders_are_understood(tmp_path: Path) -> None:
    for tool, file in (("systemd-sysusers", "sysusers"), ("systemd-tmpfiles", "tmpfiles")):
        if shutil.which(tool) is None:
            pytest.skip(f"NOT CHECKED: {tool} is not installed")
        flags = ["--dry-run"] if tool == "systemd-sysusers" else ["--create", "--prefix=/nowhere"]
        done = subprocess.run(
            [tool, *flags, f"--root={tmp_path}", str(DEPLOY / f"berth-{file}.conf")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Unknown" not in done.stderr
