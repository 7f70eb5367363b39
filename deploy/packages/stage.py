"""The wheel, and from it the folder of files that every system package installs.

Everything is made from a copy of the four rooms with fixed times and modes; third-party packages
are the wheels whose digests ``requirements.lock`` names: the same source gives the same bytes.
"""

from __future__ import annotations

import configparser
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEPLOY = HERE.parent
PROJECT = DEPLOY.parent
ROOMS = ("pilot", "predictor", "policies", "plugin")
HOME = Path("opt/berth")
"""Where Berth lives in a system, with a Python environment of its own."""
LOCK = HERE / "requirements.lock"
EARLIEST = 315532800
"""1980-01-01, before which a zip file has no times."""
OLDEST_GLIBC = 28
UNITS = "usr/lib/systemd/system"
COMPLETIONS = {
    "usr/share/bash-completion/completions/berth": "berth.bash",
    "usr/share/fish/vendor_completions.d/berth.fish": "berth.fish",
    "usr/share/zsh/site-functions/_berth": "berth.zsh",
    "usr/share/zsh/vendor-completions/_berth": "berth.zsh",
}
"""Where shells look for completion (zsh: of Fedora and its kin, of Debian and its kin)."""
LAUNCHER = """\
#!/{home}/bin/python -I
import sys
from {module} import {function}
sys.exit({function}())
"""


def source_date(project: Path = PROJECT) -> int:
    """SOURCE_DATE_EPOCH: as given, else the time of the last commit, else 1980."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    asked = ["git", "-C", str(project), "log", "-1", "--pretty=%ct"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else EARLIEST


def same_modes(folder: Path, moment: int) -> None:
    """Give every file and folder fixed modes and one time."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)


def build_wheel(out: Path, work: Path, *, project: Path = PROJECT, isolated: bool = True) -> Path:
    """The wheel of ``project``, made in ``out`` from a copy in ``work`` that nothing else changes.

    Without ``isolated`` the build tools are this Python's. Raises CalledProcessError.
    """
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(project / room, source / room, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(project / name, source / name)
    moment = source_date(project)
    same_modes(source, moment)
    out.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(source)]
    subprocess.run(
        words if isolated else [*words, "--no-isolation"],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(moment)},
        umask=0o022,
        check=True,
        capture_output=True,
        text=True,
    )
    [wheel] = out.glob("berth-*.whl")
    return wheel


def download(folder: Path, python: str, machine: str) -> None:
    """The locked wheels for one Python and machine, each checked against its digest."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(OLDEST_GLIBC, 16, -1)]
    platforms = [
        word for tag in [*tags, f"manylinux2014_{machine}"] for word in ("--platform", tag)
    ]
    _pip("download", "--dest", folder, "--only-binary=:all:", "--no-deps", "--require-hashes",
         "--python-version", python, *platforms, "--requirement", LOCK)  # fmt: skip


def stage(root: Path, wheel: Path, wheels: Path, python: str, *, project: Path = PROJECT) -> None:
    """Lay out in ``root`` what a package installs: the environment, units, pages, examples."""
    shutil.rmtree(root, ignore_errors=True)
    home = root / HOME
    packages = home / f"lib/python{python}/site-packages"
    # By name: of a file that is named, pip notes where it was, and two builds would differ.
    locked = map(_requirement, sorted(wheels.glob("*.whl")))
    _install(packages, python, *_platforms_of(wheels), "--find-links", wheels, *locked)
    _install(packages, python, "--find-links", wheel.parent, _requirement(wheel))
    _environment(home, python)
    _commands(root, wheel)
    _system_files(root, project)


def _platforms_of(wheels: Path) -> list[str]:
    tags = {tag for path in wheels.glob("*.whl") for tag in path.stem.split("-")[-1].split(".")}
    return [word for tag in sorted(tags - {"any"}) for word in ("--platform", tag)]


def _requirement(wheel: Path) -> str:
    """``name==version`` of a wheel's file."""
    return "==".join(wheel.name.split("-")[:2])


def _install(packages: Path, python: str, *what: str | Path) -> None:
    """Unpack wheels for another Python than this one; commands are written by ``_commands``."""
    _pip("install", "--target", packages, "--no-index", "--no-deps", "--no-compile",
         "--python-version", python, "--only-binary=:all:", *what)  # fmt: skip
    shutil.rmtree(packages / "bin", ignore_errors=True)


def _pip(*words: str | Path) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]], check=True)


def _environment(home: Path, python: str) -> None:
    """A virtual environment around the distribution's Python, without a copy of pip."""
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").symlink_to(f"/usr/bin/python{python}")
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    )


def _commands(root: Path, wheel: Path) -> None:
    """The wheel's commands, run in isolated mode whatever PYTHONPATH says."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/entry_points.txt")]
        points = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        points.optionxform = str  # type: ignore[assignment,method-assign]
        points.read_string(archive.read(name).decode())
    for command, target in points["console_scripts"].items():
        module, _, function = target.partition(":")
        path = root / HOME / "bin" / command
        path.write_text(LAUNCHER.format(home=HOME, module=module, function=function))
        path.chmod(0o755)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/berth").symlink_to(f"/{HOME}/bin/berth")


def _system_files(root: Path, project: Path) -> None:
    deploy = project / "deploy"
    _copy(
        [*deploy.glob("*.service"), *deploy.glob("*.timer"), *deploy.glob("*.socket")], root / UNITS
    )
    for kind in ("sysusers", "tmpfiles"):
        _copy([deploy / f"berth-{kind}.conf"], root / f"usr/lib/{kind}.d", name="berth.conf")
    named = ("mig-epilog", "mig-task-prolog", "usage-epilog")
    scripts = [deploy / f"berth-{name}" for name in named]
    _copy(scripts, root / "usr/libexec/berth", executable=True)
    share = root / HOME / "share"
    _copy((project / "docs").glob("*.md"), share / "doc/berth")
    _copy([project / "LICENSE", project / "CHANGELOG.md"], share / "doc/berth")
    examples = ("berth-*.toml", "berth-*.conf", "berth-*.sudoers", "berth-*_keys", "prometheus/*")
    _copy((path for name in examples for path in deploy.glob(name)), share / "examples")
    _copy((HERE / "slurm").iterdir(), share / "examples/slurm")
    for place, name in COMPLETIONS.items():
        path = root / place
        _copy([deploy / "completions" / name], path.parent, name=path.name)
    (root / "etc/berth").mkdir(parents=True)


def _copy(
    files: Iterable[Path], folder: Path, *, name: str | None = None, executable: bool = False
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        copied = folder / (name or path.name)
        shutil.copyfile(path, copied)
        copied.chmod(0o755 if executable else 0o644)
