"""docs/extending.md: a package adds an objective, a collector, a scheduler and a family.

``examples/berth-extra`` is installed into a folder of its own, and every one is used by the
command line.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from berth_daemon import start_daemon, wait_until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "berth-extra"
PAGE = ROOT / "docs" / "extending.md"
BERTH = [sys.executable, "-c", "from berth.plugin.cli import main; main()"]
TABLE = {
    "schema": "berth-extra.table/1",
    "name": "sums",
    "seconds": {"rome-7742": 30, "epyc-genoa-9654": 20},
    "memory_bytes": 1e9,
}
SITE = """\
schema = "berth.site/1"
mode = "enforce"
[site]
scheduler = "local"
auto_queue = "auto"
[policy]
objective = "greenest"
[daemon]
socket = "berth.sock"
store = "sqlite:///{folder}/store.db"
kill_switch = "off"
outcomes_refresh_s = 0
[[platforms]]
name = "rome-7742"
power_w = 200
[[platforms]]
name = "epyc-genoa-9654"
power_w = 700
[[candidates]]
name = "old"
platform = "rome-7742"
queue = "local"
cores_per_node = 1
[[candidates]]
name = "new"
platform = "epyc-genoa-9654"
queue = "other"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as `pip install` puts it."""
    folder = tmp_path_factory.mktemp("extra")
    shutil.copytree(
        EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--no-index", "--target", folder / "installed", folder / "source"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return folder / "installed"


class Shell:
    """Runs berth in a folder with the site file and the table, with packages beside it."""

    def __init__(self, folder: Path, *packages: Path) -> None:
        self.folder = folder
        (folder / "table.json").write_text(json.dumps(TABLE))
        (folder / "berth.toml").write_text(SITE.format(folder=folder))
        hidden = ("BERTH_SITE", "BERTH_STORE")
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in hidden},
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            "BERTH_LOCAL_JOBS": str(folder / "jobs"),
        }

    def __call__(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [*BERTH, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr


@pytest.fixture
def berth(installed: Path, tmp_path: Path) -> Shell:
    return Shell(tmp_path, installed)


def findings(text: str) -> list[tuple[str, str]]:
    return [(f["status"], f["text"]) for f in json.loads(text) if f["check"] == "packages"]


def test_the_doctor_lists_what_a_package_adds(berth: Shell) -> None:
    assert findings(berth("site", "doctor", "--json")) == [
        ("ok", "berth.collectors: rusage"),
        ("ok", "berth.objectives: greenest"),
        ("ok", "berth.schedulers: local"),
        ("ok", "berth.families: table"),
        ("ok", "berth.workloads: berth-extra.table/1"),
        ("ok", "berth.commands: local"),
    ]


@pytest.mark.slow
def test_the_family_forecasts_and_the_objective_chooses(berth: Shell) -> None:
    words = ("place", "table.json", "--site", "berth.toml", "--no-state")
    found = json.loads(berth(*words, "--json", "--", "job.sh"))
    assert (found["chosen"], found["policy"]) == ("old", "greenest")
    assert "is predicted to need least energy" in found["reason"]
    assert [row["score"] for row in found["ranked"]] == [30 * 200, 20 * 700]
    assert found["terms"]["old"][0] == {"name": "mean power", "value": 200.0, "unit": "W"}
    assert found["ranked"][0]["basis"] == "measured"
    fastest = json.loads(berth(*words, "--json", "--policy", "fastest", "--", "job.sh"))
    assert fastest["chosen"] == "new"
    assert "1 core of rome-7742" in berth(*words, "--", "job.sh")


def test_the_collector_measures(berth: Shell) -> None:
    words = ("pilot", "run", "--json", "--repeats", "1", "--collectors", "rusage", "--")
    profile = json.loads(berth(*words, "sleep", "0.1"))
    assert profile["counters"]["page_faults"]["source"] == "rusage"
    used = [r["name"] for r in profile["collectors"] if r["status"] == "used"]
    assert used == ["rusage"]


@pytest.mark.slow
def test_the_scheduler_is_read_given_a_job_and_asked_what_became_of_it(berth: Shell) -> None:
    first = berth("site", "init", "--scheduler", "local", "--dry-run")
    assert tomllib.loads(first)["site"]["scheduler"] == "local"
    script = berth.folder / "job.sh"
    script.write_text("#!/bin/sh\necho done > result\n")
    script.chmod(0o755)
    placed = berth("place", "table.json", "--site", "berth.toml", "--submit", "--", "./job.sh")
    assert "Submitted as job local-1." in placed
    wait_until(
        lambda: "local-1  completed" in berth("site", "local", "jobs"), what="the job has ended"
    )
    assert (berth.folder / "result").read_text() == "done\n"
    refused = berth(
        "place", "table.json", "--site", "berth.toml", "--no-state", "--policy", "fastest",
        "--submit", "--", "./job.sh", status=1,
    )  # fmt: skip
    assert "invalid queue 'other'" in refused


@pytest.mark.slow
def test_the_daemon_answers_a_filter_of_that_scheduler(berth: Shell) -> None:
    berth("workload", "add", "table.json", "--site", "berth.toml")
    site = berth.folder / "berth.toml"
    daemon = start_daemon(site, berth.folder / "berth.sock", environment=berth.environment)
    try:
        wait_until(lambda: daemon.stats()["state_age_s"] is not None)
        reply = daemon.decide(
            scheduler="local", queue="auto", comment="berth:sums", user=getpass.getuser()
        )
        assert (reply["action"], reply["edits"]["queue"]) == ("edit", "local")
        assert "(opt out: BERTH_WORKLOAD=off)" in reply["message"]
        slurm = daemon.decide(scheduler="pbs", queue="auto", comment="berth:sums")
        assert slurm["problem"] == "scheduler is not slurm or flux or local"
    finally:
        daemon.stop()


def test_an_unknown_name_is_refused_with_the_nearest_of_all(berth: Shell) -> None:
    site = ("--site", "berth.toml")
    wrong = berth("place", "table.json", *site, "--policy", "greenst", status=2)
    assert "did you mean 'greenest'? known: fastest, " in wrong
    assert wrong.rstrip().endswith(", greenest")
    assert "did you mean 'local'?" in berth("site", "init", "--scheduler", "locla", status=2)
    assert "did you mean 'rusage'?" in berth(
        "pilot", "run", "--collectors", "rusag", "--", "true", status=2
    )


@pytest.mark.slow
def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    alone = Shell(tmp_path)
    wrong = alone("place", "table.json", "--site", "berth.toml", status=2)
    assert "site.scheduler: there is no scheduler 'local'" in wrong
    assert "berth-extra.table/1" in alone("place", "table.json", "--demo", status=2)


def fake_package(folder: Path, name: str, entry_points: str) -> Path:
    """As much of an installed package as is looked at."""
    info = folder / name / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    return folder / name


@pytest.mark.slow
def test_broken_packages_are_named_and_the_rest_goes_on(installed: Path, tmp_path: Path) -> None:
    broken = fake_package(
        tmp_path,
        "broken",
        "[berth.objectives]\nsooner = no_such_module:Sooner\n"
        "fastest = berth_extra.greenest:Greenest\n"
        "[berth.schedulers]\nhalf = json:JSONDecoder\n",
    )
    clashing = fake_package(
        tmp_path, "other", "[berth.objectives]\ngreenest = berth_extra.rusage:RusageCollector\n"
    )
    berth = Shell(tmp_path, installed, broken, clashing)
    found = dict(reversed(pair) for pair in findings(berth("site", "doctor", "--json")))
    assert "the objective 'sooner' of the package broken cannot be imported" in "\n".join(found)
    clash = (
        "the objective 'greenest' is declared by 2 packages: berth-extra, other; remove all but one"
    )
    assert found[clash] == "warn"
    own = "the objective 'fastest' is Berth's own name; that of the package broken is unused"
    assert found[own] == "warn"
    assert any(
        text.startswith("the scheduler 'half' of the package broken has no") for text in found
    )
    assert clash in berth("place", "table.json", "--demo", "--policy", "greenest", status=2)
    text = berth("place", "table.json", "--demo", "--policy", "fastest", "--", "job.sh")
    assert "is predicted fastest" in text


# The tutorial: what each extension takes

STEPS = {
    "an objective": (["greenest.py"], ["berth.objectives"], 1),
    "a collector": (["rusage.py"], ["berth.collectors"], 1),
    "a scheduler": (["local"], ["berth.schedulers", "berth.commands"], 4),
    "a family": (["table.py"], ["berth.families", "berth.workloads"], 1),
}
"""Of each: its files or folder, its groups of entry points, how many files that makes."""


def without(pyproject: str, groups: set[str]) -> str:
    """The file without those groups of entry points."""
    for group in groups:
        table = re.escape(f'[project.entry-points."{group}"]')
        pyproject = re.sub(rf"{table}\n(?:[^\n]+\n)+\n", "", pyproject)
    return pyproject


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_each_takes_its_own_files_and_its_entry_points_only(repository: Path) -> None:
    """The tutorial as commits: a new file or folder each, and lines in pyproject.toml."""
    whole = (EXAMPLE / "pyproject.toml").read_text()
    missing = {group for _, groups, _ in STEPS.values() for group in groups}
    package = repository / "berth_extra"
    package.mkdir()
    shutil.copy(EXAMPLE / "berth_extra" / "__init__.py", package)
    (repository / "pyproject.toml").write_text(without(whole, missing))
    commit(repository, "an empty package")
    for what, (names, groups, count) in STEPS.items():
        for name in names:
            source = EXAMPLE / "berth_extra" / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            ignore = {"ignore": shutil.ignore_patterns("__pycache__")} if source.is_dir() else {}
            copy(source, package / name, **ignore)
        missing -= set(groups)
        (repository / "pyproject.toml").write_text(without(whole, missing))
        changed = commit(repository, what)
        assert changed["M"] == ["pyproject.toml"], what
        assert len(changed["A"]) == count, what
    assert (repository / "pyproject.toml").read_text() == whole


def commit(repository: Path, subject: str) -> dict[str, list[str]]:
    """Commit everything; the files by how they changed."""
    git = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", subject], check=True)
    shown = subprocess.run(
        [*git, "show", "--name-status", "--format="], check=True, capture_output=True, text=True
    ).stdout
    changed: dict[str, list[str]] = {"A": [], "M": []}
    for line in shown.splitlines():
        how, _, name = line.partition("\t")
        changed.setdefault(how, []).append(name)
    return changed


def test_the_page_shows_the_examples_own_code() -> None:
    """Each Python block of the page is in a file of the example as it stands there."""
    files = [path.read_text() for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml")]
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert any(block in text for text in files), block
