"""`make packages-check`: the packages on a clean Debian with its own systemd and Slurm.

Installed by the commands of docs/install.md, run, upgraded from an older build and rolled back at
20 submissions a second with none rejected, removed, purged. Run by name only: it takes minutes,
root and the mirror. BERTH_PACKAGES_BUILT names a folder in which packages are built once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_debian import Machine, machine
from stage import ROOMS

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "deploy" / "packages" / "build_packages.py"
OLDER = "0.0.9"
PER_SECOND = 20
RELEASE = os.environ.get("BERTH_PACKAGES_RELEASE", "bookworm")
PYTHON = {"bookworm": "3.11", "trixie": "3.13"}[RELEASE]
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
SUBMISSIONS = f"""\
while [ ! -e /tmp/enough ]; do
  (sbatch --quiet --parsable --hold --wrap=true >>/tmp/said 2>&1; echo "$?" >>/tmp/answers) &
  sleep {1 / PER_SECOND}
done
wait
"""


def commands(heading: str) -> list[str]:
    """The lines of the first block of commands under a heading of the page."""
    found = re.search(rf"^## {heading}\n.*?^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1].splitlines()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two packages from two versions of the source."""
    kept = os.environ.get("BERTH_PACKAGES_BUILT")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("packages")
    if (folder / "new").exists():
        return folder
    older = folder / "source"
    for name in (*ROOMS, "deploy", "docs"):
        shutil.copytree(ROOT / name, older / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, older / name)
    version = older / "pilot" / "version.py"
    version.write_text(re.sub(r'"[\d.]+"', f'"{OLDER}"', version.read_text()))
    for project, name in ((ROOT, "new"), (older, "old")):
        words = [sys.executable, BUILD, folder / name, "--project", project, "--uncompressed",
                 "--python", PYTHON, "--work", folder / "work"]  # fmt: skip
        subprocess.run(words, check=True)
    return folder


@pytest.fixture
def debian(built: Path) -> Iterator[Machine]:
    with machine(RELEASE) as running:
        for kind in ("deb", "rpm"):
            for path in built.glob(f"*/*.{kind}"):
                shutil.copy(path, running.root / "srv" / path.name)
        yield running


def package(built: Path, name: str, kind: str = "deb") -> str:
    [found] = (built / name).glob(f"*.{kind}")
    return found.name


def decisions(debian: Machine) -> int:
    """How many the store holds."""
    return len(json.loads(debian.run("berth jobs decisions --last 100000 --json").stdout))


def submit_during(debian: Machine, change: str) -> list[str]:
    """What sbatch's exit states were while ``change`` was carried out, as its lines."""
    debian.run("rm -f /tmp/enough /tmp/answers /tmp/said; touch /tmp/said")
    loop = debian.start(SUBMISSIONS)
    try:
        debian.wait_for(f"test $(wc -l </tmp/answers) -ge {PER_SECOND}")
        debian.run(change)
        seen = len(debian.run("cat /tmp/answers").stdout.split())
        debian.wait_for(f"test $(wc -l </tmp/answers) -ge {seen + PER_SECOND}")
    finally:
        debian.run("touch /tmp/enough")
        loop.communicate()
    answers = debian.run("cat /tmp/answers").stdout.split()
    assert set(answers) == {"0"}, debian.run("sort /tmp/said | uniq -c | sort -n | tail").stdout
    return answers


@pytest.mark.timeout(5400)
def test_from_a_clean_debian_to_shadow_and_back(debian: Machine, built: Path) -> None:
    new, old = package(built, "new"), package(built, "old")
    lines = commands("On a clean Debian")
    assert len(lines) <= 5
    for line in lines:
        debian.run(line.replace("berth_VERSION_amd64.deb", old), timeout_s=900)
    debian.wait_for("berth serve --status")
    debian.wait_for("sinfo --noheader --format %T | grep -x idle")
    [job] = re.findall(r"batch job (\d+)", debian.run("sbatch --wrap=true").stdout)
    debian.wait_for(f"berth jobs decisions {job} | grep -w {job}")
    assert "shadow" in debian.run(f"berth jobs decisions {job} --json").stdout
    assert OLDER in debian.run("berth --version").stdout
    assert debian.run("systemctl is-active berth berth-users").stdout.split() == ["active"] * 2
    timers = debian.run("systemctl list-timers --all --no-legend").stdout
    for name in ("prune", "history", "check"):
        assert f"berth-{name}.timer" in timers

    before = decisions(debian)
    install = "apt-get install --yes --quiet --allow-downgrades ./{}"
    upgraded = submit_during(debian, install.format(new))
    assert OLDER not in debian.run("berth --version").stdout
    debian.wait_for("berth serve --status")
    rolled_back = submit_during(debian, install.format(old))
    assert OLDER in debian.run("berth --version").stdout
    debian.wait_for("berth serve --status")
    print(f"{len(upgraded)} submissions during the upgrade, {len(rolled_back)} during the way back,"
          f" none rejected; {decisions(debian) - before} of them decided")  # fmt: skip
    assert decisions(debian) > before

    submit_during(debian, "apt-get remove --yes --quiet berth")
    debian.run("test -s /etc/berth/berth.toml -a -s /var/lib/berth/berth.db")
    debian.run("! test -e /opt/berth")
    assert debian.run("systemctl is-active berth", check=False).stdout.strip() == "inactive"
    debian.run("sbatch --wrap=true")
    debian.run(install.format(new))
    debian.wait_for("berth serve --status")
    assert decisions(debian) > before  # what was kept is there again

    debian.run("apt-get purge --yes --quiet berth")
    left = debian.run("find / -xdev -path /proc -prune -o -name '*berth*' -print").stdout.split()
    ours = ("/srv/berth_", "/srv/berth-", "/var/lib/dpkg")
    assert [path for path in left if not path.startswith(ours)] == []
    debian.run("sbatch --wrap=true")

    debian.run("rm /etc/slurm/job_submit.lua; sed -i /^JobSubmitPlugins=/d /etc/slurm/slurm.conf")
    debian.run("systemctl restart slurmctld")
    lines = commands("Beside a Slurm that is there")
    assert len(lines) <= 5
    for line in lines:
        debian.run(line.replace("berth_VERSION_amd64.deb", new))
    debian.wait_for("berth serve --status")
    debian.wait_for("sbatch --wrap=true && sleep 2 && berth jobs decisions --last 1 | grep -q .")
    assert decisions(debian) >= 1


@pytest.mark.timeout(5400)
def test_the_playground_of_the_image_runs_without_systemd(debian: Machine, built: Path) -> None:
    image = (ROOT / "deploy/packages/containers/playground.Containerfile").read_text()
    [wanted] = re.findall(r"(slurmctld [^\\]*) \\$", image, re.MULTILINE)
    debian.run(
        "printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d"
    )
    debian.run("apt-get install --yes --quiet --no-install-recommends "
               f"./{package(built, 'new')} {wanted}", timeout_s=900)  # fmt: skip
    shutil.copy(ROOT / "deploy/packages/containers/playground", debian.root / "srv/playground")
    shown = debian.run(
        # The daemon lives on here, as this shell is not the first process, and holds its output.
        "./playground sh -c 'sbatch --wrap=true && sleep 3 && berth jobs decisions --last 1' "
        ">shown 2>&1; code=$?; cat shown; exit $code"
    )
    assert "Submitted batch job" in shown.stdout
    assert "shadow" in shown.stdout


@pytest.mark.timeout(5400)
def test_the_rpms_files_and_scripts_work_under_another_systems_rpm(
    debian: Machine, built: Path
) -> None:
    """Dependencies are left out: their names are those of RHEL and Fedora."""
    new, old = package(built, "new", "rpm"), package(built, "old", "rpm")
    debian.run("apt-get install --yes --quiet --no-install-recommends rpm python3", timeout_s=900)
    rpm = "rpm --nodeps --force-debian"
    debian.run(f"{rpm} --install {old}")
    assert OLDER in debian.run("berth --version").stdout
    assert debian.run("systemctl is-enabled berth.service berth-check.timer").stdout.count(
        "enabled"
    )
    debian.run("getent passwd berth && test -d /var/lib/berth")
    debian.run(f"{rpm} --upgrade {new}")
    assert OLDER not in debian.run("berth --version").stdout
    debian.run(f"{rpm} --upgrade --oldpackage {old}")
    assert OLDER in debian.run("berth --version").stdout
    debian.run(f"{rpm} --erase berth")
    debian.run("! test -e /opt/berth && ! test -e /usr/lib/systemd/system/berth.service")


def test_two_builds_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    words = [sys.executable, BUILD, tmp_path / "again", "--uncompressed", "--python", PYTHON,
             "--work", tmp_path / "work"]  # fmt: skip
    subprocess.run(words, check=True)
    again = (tmp_path / "again" / "SHA256SUMS").read_text()
    assert again == (built / "new" / "SHA256SUMS").read_text()
