"""A pilot and a prediction from it in the environments that users have: they work there, or one
sentence says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from berth.pilot.documents import read_json
from berth.pilot.profile import Profile

MEASURE_AND_PREDICT = """
import sys
from berth.plugin.cli import main
program = ["/bin/sh", "-c", "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done"]
options = ["--quiet", "--count", "--repeats", "1", "--output", sys.argv[1]]
main(["pilot", "run", *options, "--", *program])
main(["predict", sys.argv[1]])
"""
HIDDEN = {"compiler": ("cc", "gcc", "clang"), "valgrind": ("valgrind",)}


class Environment(NamedTuple):
    """How a user's machine or account differs from this one."""

    name: str
    variables: Mapping[str, str | None] = {}
    """With {folder}, the working folder; None: not set."""
    before: str = ""
    """Shell that makes it, in name spaces of its own as root, in the working folder."""
    says: str = ""
    """Part of what is printed; "": nothing is said about the environment."""
    output: str = "app.json"
    status: int = 0


ENVIRONMENTS = (
    Environment("as it is"),
    Environment("no compiler", {"PATH": "compiler"}, says="a C compiler"),
    Environment("no valgrind", {"PATH": "valgrind"}, says="valgrind is not available"),
    Environment("no HOME", {"HOME": None, "BERTH_CACHE": None}),
    Environment(
        "HOME is not there",
        {"HOME": "/dev/null/home", "BERTH_CACHE": None},
        says="BERTH_CACHE",
    ),
    Environment(
        "HOME read-only",
        {"HOME": "{folder}/home", "BERTH_CACHE": None},
        "mkdir home && mount -t tmpfs -o ro tmpfs home",
        says="BERTH_CACHE",
    ),
    Environment(
        "cache read-only",
        {"BERTH_CACHE": "{folder}/cache"},
        "mkdir cache && mount -t tmpfs -o ro tmpfs cache",
        says="BERTH_CACHE",
    ),
    Environment(
        "TMPDIR noexec",
        {"TMPDIR": "{folder}/tmp"},
        "mkdir tmp && mount -t tmpfs -o noexec tmpfs tmp",
    ),
    Environment(
        "TMPDIR of 300 KiB",
        {"TMPDIR": "{folder}/tmp"},
        "mkdir tmp && mount -t tmpfs -o size=300k tmpfs tmp",
        says="TMPDIR",
    ),
    Environment(
        "output disk full",
        {},
        "mkdir full && mount -t tmpfs -o size=4k tmpfs full && head -c 4096 /dev/zero >full/zeros",
        says="berth: full/app.json cannot be written: No space left on device\n"
        "  what was measured is kept in ",
        output="full/app.json",
        status=1,
    ),
    Environment("a locale that is not here", {"LC_ALL": "tr_TR.ISO-8859-9"}),
    Environment("ASCII", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    Environment("a time zone at the date line", {"TZ": "Pacific/Kiritimati"}),
    Environment("no such time zone", {"TZ": ":/no/such/zone"}),
    Environment("no control groups", {}, "mount -t tmpfs tmpfs /sys/fs/cgroup"),
    Environment("control groups v2", {}, "mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    Environment(
        "control groups v1",
        {},
        "mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory && "
        "mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory",
    ),
    Environment("address space of 6 GB", {}, "ulimit -v 6000000"),
    Environment("one core", {}, "taskset -cp 0 $$ >&2"),
    Environment(
        "processes of others hidden",
        {"HOME": "{folder}", "BERTH_CACHE": None},
        # The rights to files stay, as this Python may lie below /root.
        "mount -t proc -o hidepid=invisible proc /proc && rights=+dac_override,+dac_read_search && "
        "set -- setpriv --reuid=23001 --regid=23001 --clear-groups --inh-caps=$rights "
        '--ambient-caps=$rights -- "$@"',
    ),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, with spaces, UTF-8 and a path of 200 characters."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outer:
        Path(outer).chmod(0o755)
        filler = "Bö rth "
        deep = Path(outer) / (filler * 30)[: 199 - len(outer)]
        deep.mkdir()
        deep.chmod(0o777)
        yield deep


def path_without(hidden: str, folder: Path) -> str:
    """A PATH with links to all that is on this one, but for some programs."""
    links = folder / "bin"
    links.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            if program.name not in HIDDEN[hidden] and not (links / program.name).is_symlink():
                (links / program.name).symlink_to(program)
    return str(links)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: e.name)
def test_a_pilot_and_a_prediction_work_in(environment: Environment, folder: Path) -> None:
    variables = {"BERTH_CACHE": os.environ.get("BERTH_CACHE", ""), **environment.variables}
    if "PATH" in variables:
        variables["PATH"] = path_without(str(variables["PATH"]), folder)
    env = {k: v for k, v in os.environ.items() if variables.get(k, v) is not None}
    env |= {k: v.format(folder=folder) for k, v in variables.items() if v is not None}
    words = [sys.executable, "-c", MEASURE_AND_PREDICT, environment.output]
    if environment.before:
        if os.geteuid() != 0:
            pytest.skip("NOT TESTED: only root can mount")
        script = f'{environment.before} || exit 99; exec "$@"'
        words = ["unshare", "--mount", "sh", "-ec", script, "sh", *words]
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, check=False, encoding="utf-8",
        errors="replace",
    )  # fmt: skip
    printed = done.stdout + done.stderr
    if done.returncode == 99:
        pytest.skip(f"NOT TESTED HERE: {environment.name}: {done.stderr.strip()}")
    assert done.returncode == environment.status, printed
    assert environment.says in printed
    assert "Traceback" not in printed
    if environment.status == 0:
        profile = read_json(folder / "app.json", Profile)
        assert profile.complete
        assert profile.runtime is not None
        assert ("BERTH_CACHE" in printed) == (environment.says == "BERTH_CACHE")
    else:
        assert read_json(folder / "app.json", Profile).complete
