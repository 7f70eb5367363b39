"""A private Slurm cluster on this machine: munged, slurmctld and four slurmd.

Own ports, own munge key and sockets, everything under one short folder; nothing of the system's
Slurm is touched and no user is made. ``ClusterUnavailable`` says what is missing.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from accounting_database import AccountingDatabase, DatabaseUnavailable
from machine_speed import is_over
from slurm_conf import NO_OP_FILTER, NODE_NAMES, NODES, configuration
from warm_berth import run_berth

from berth.plugin.slurm.filter import FILTER_PATH

OTHER_ROOT = os.environ.get("BERTH_TEST_SLURM_ROOT")
"""A root folder of another distribution whose Slurm is to be used (CONTRIBUTING.md says how)."""

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
START_TIMEOUT_S = 60.0

USER = "games"
"""A user of every Debian that may use all partitions; its group opens ``reserved``."""
OTHER_USER = "daemon"
"""A user who may not use the partition ``reserved``."""

_WHOLE_LINE_KEYS = ("Comment", "AdminComment", "Command", "WorkDir", "StdErr", "StdOut")


class ClusterUnavailable(Exception):
    """This machine cannot run a private cluster; the message says why and what to do."""


def inside(argv: Sequence[str], *, cwd: Path, user: str | None = None) -> list[str]:
    """How a command of Slurm's is started: in another root folder, where one is named."""
    words = list(argv)
    if OTHER_ROOT is None or words[0].startswith("/"):
        return words
    entry = pwd.getpwnam(user or "root")
    who = f"--userspec={entry.pw_uid}:{entry.pw_gid}"
    there = 'cd "$0" && PATH=/usr/sbin:/usr/bin:/sbin:/bin && exec "$@"'
    return ["chroot", who, OTHER_ROOT, "sh", "-c", there, str(cwd), *words]


def as_user(name: str) -> list[str]:
    """Words in front of a command that is to run as another user.

    With ``subprocess``'s own ``user`` this whole process is copied first: with all that tests
    import that takes a hundred times as long as the command.
    """
    entry = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]


def require_slurm() -> None:
    """Raises ClusterUnavailable where Slurm's daemons or the rights to run them are missing."""
    where = None if OTHER_ROOT is None else f"{OTHER_ROOT}/usr/sbin:{OTHER_ROOT}/usr/bin"
    missing = [tool for tool in DAEMONS if shutil.which(tool, path=where) is None]
    if missing:
        raise ClusterUnavailable(f"no {', '.join(missing)} here; `make slurm` installs Slurm")
    if os.geteuid() != 0:
        raise ClusterUnavailable("a private cluster whose jobs run as several users needs root")


class Cluster:
    """Four nodes under one folder. ``cluster()`` starts one and surely ends it."""

    node_names: tuple[str, ...] = NODE_NAMES
    nodes: str = NODES
    """Lines of ``slurm.conf`` for nodes and partitions."""

    def __init__(
        self,
        *,
        job_submit: str = NO_OP_FILTER,
        min_job_age_s: int = 300,
        amend: Callable[[dict[str, str]], dict[str, str]] = dict,
        database: Sequence[str] | None = None,
    ) -> None:
        """``amend`` changes the configuration files' texts; ``database``: with slurmdbd, and with
        QOS of these names."""
        require_slurm()
        self._amend = amend
        self._database = None if database is None else AccountingDatabase(database)
        self.root = _short_folder()
        self._state = _state_folder(self.root)
        self.etc = self.root / "etc"
        self.work = self.root / "work"
        self.berth_socket = self.root / "run" / "berth.sock"
        self.timings = self.root / "run" / "timings"
        """Seconds of each call of the filter, where a test's filter writes them."""
        self._min_job_age_s = min_job_age_s
        self._job_submit = job_submit
        self.pids: dict[str, int] = {}
        self._keeper: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Bring the cluster up; nothing is left where that fails."""
        try:
            self._prepare()
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's commands need to find this cluster, and nothing of this process's own."""
        return {
            "PATH": f"{self.root}/bin:{os.environ.get('PATH', '')}:/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CONF": str(self.etc / "slurm.conf"),
            "LANG": "C.UTF-8",
            "BERTH_FILTER_CONFIG": str(self.etc / "filter.conf"),
        }

    def slurmd(self, node: str) -> tuple[str, ...]:
        """The command of one node's daemon."""
        return ("slurmd", "-D", "-N", node, "-f", str(self.etc / "slurm.conf"))

    def stop(self) -> None:
        """End every process of the cluster and remove its files. Safe to call twice."""
        if self._keeper is None:
            for folder in (self.root, self._state):
                shutil.rmtree(folder, ignore_errors=True)
            return
        keeper, self._keeper = self._keeper, None
        with contextlib.suppress(OSError):
            if keeper.stdin is not None:
                keeper.stdin.close()
        keeper.wait(timeout=30)

    def run(
        self,
        *argv: str,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        stdin: str | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command against this cluster, as ``user`` where given."""
        words = inside(argv, cwd=self.work, user=user)
        if user is not None and words[0] != "chroot":
            words = [*as_user(user), *words]
        done = subprocess.run(
            words,
            env={**self.environment, **(env or {})},
            cwd=self.work,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def berth(
        self, *words: str, check: bool = True, timeout_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ours against this cluster, from a process that has imported it."""
        done = run_berth(*words, env=self.environment, cwd=self.work, timeout_s=timeout_s)
        if check and done.returncode != 0:
            raise AssertionError(f"berth {' '.join(words)}: {done.stderr or done.stdout}")
        return done

    def sbatch(
        self,
        *options: str,
        script: str = "#!/bin/sh\nexec true\n",
        user: str | None = USER,
        env: Mapping[str, str] | None = None,
    ) -> Submitted:
        """Submit a batch script; fails where sbatch does."""
        done = self.run("sbatch", *options, user=user, env=env, stdin=script)
        found = re.search(r"Submitted batch job (\d+)", done.stdout)
        if found is None:
            raise AssertionError(f"sbatch said {done.stdout!r}, {done.stderr!r}")
        return Submitted(int(found.group(1)), done.stderr)

    def submit_many(self, count: int, *options: str, user: str = USER) -> list[int]:
        """``count`` held batch jobs one after the other; their ids. Fails if one is refused."""
        loop = 'n=$1; shift; while [ $n -gt 0 ]; do sbatch "$@" || exit 1; n=$((n-1)); done'
        done = self.run(
            "sh", "-c", loop, "sh", str(count), "--hold", "--parsable", "--wrap=true", *options,
            user=user,
        )  # fmt: skip
        return [int(line) for line in done.stdout.split()]

    def shapes(self, job_ids: Sequence[int]) -> set[str]:
        """What differs between jobs that were submitted alike: partition, size, gres, stamp."""
        text = self.run("squeue", "-h", "-a", "-o", "%A|%P|%C|%D|%m|%b|%f|%l|%k").stdout
        found = dict(line.split("|", 1) for line in text.splitlines())
        return {found[str(job_id)] for job_id in job_ids}

    def job(self, job_id: int | str) -> dict[str, str]:
        """What ``scontrol show job`` says of one job (the first record), by key."""
        text = self.run("scontrol", "show", "job", str(job_id)).stdout.strip().split("\n\n")[0]
        found: dict[str, str] = {}
        for line in text.splitlines():
            key, _, value = line.strip().partition("=")
            if key in _WHOLE_LINE_KEYS:
                found[key] = value
            else:
                words = (word.partition("=") for word in line.split())
                found.update((word[0], word[2]) for word in words)
        return found

    def wait_for_state(self, job_id: int | str, *states: str, timeout_s: float = 60) -> str:
        """Wait until the job is in one of ``states`` (default: any final one); the state."""
        final = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        seen = ""

        def reached() -> bool:
            nonlocal seen
            seen = self.job(job_id)["JobState"]
            return seen in final

        wait_until(reached, f"job {job_id} is {final}", timeout_s, note=lambda: f"it is {seen}")
        return seen

    def cancel_everything(self) -> None:
        """Cancel all jobs, so that the next test finds an idle cluster."""
        ids = self.run("squeue", "-h", "-a", "-o", "%A").stdout.split()
        if ids:
            self.run("scancel", "--quiet", *sorted(set(ids)), check=False)

    @property
    def kill_switch(self) -> Path:
        """The file that turns Berth off on this cluster."""
        return self.root / "run" / "off"

    def daemon_table(self, **values: object) -> str:
        """The table of a site file by which ``berth serve`` serves this cluster, and ``values``."""
        settings = {
            "socket": str(self.berth_socket),
            "store": f"sqlite:///{self.work}/berth.db",
            "kill_switch": str(self.kill_switch),
            "ruled_out": str(self.work / "ruled-out.json"),
            "scheduler_users": ["root"],
            "state_refresh_s": 1,
        } | values
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        return f"\n[daemon]\n{lines}"

    def set_filter_config(self, **values: object) -> None:
        """Write the filter's configuration file: it asks ``berth.sock``, and waits for the answer
        as long as it can, to be heard however busy the machine is. ``values`` change that."""
        settings = {
            "socket": self.berth_socket,
            "kill_switch": self.kill_switch,
            "deadline_ms": 1000,
            "reread_config_s": 0,
        } | values
        text = "".join(f"{key} = {value}\n" for key, value in settings.items())
        (self.etc / "filter.conf").write_text(text)

    def install_filter(self, **values: object) -> None:
        """Make Berth's filter the cluster's job_submit.lua; ``values``: of its configuration."""
        self.set_filter_config(**values)
        self.set_job_submit(FILTER_PATH.read_text())

    def copied(self, file: Path) -> Path:
        """A file of ours beside the cluster's configuration, where another root folder has it."""
        copy = self.etc / f"berth-{file.name}"
        copy.write_bytes(file.read_bytes())
        return copy

    def set_job_submit(self, text: str) -> None:
        """Replace job_submit.lua: at the next submission slurmctld loads it afresh."""
        path = self.etc / "job_submit.lua"
        later = path.stat().st_mtime + 1  # that the time changed is what slurmctld looks at
        path.write_text(text)
        os.utime(path, (later, later))

    def calls_s(self) -> list[float]:
        """Seconds of each call of the filter so far."""
        return [float(line) for line in self.timings.read_text().split()]

    def log(self, daemon: str = "slurmctld") -> str:
        """What a daemon logged so far."""
        return (self.root / "log" / f"{daemon}.log").read_text(errors="replace")

    def launch(self, name: str, *argv: str, env: Mapping[str, str] | None = None) -> int:
        """Start a further daemon that lives and dies with the cluster; its process id."""
        if self._keeper is None or self._keeper.stdin is None or self._keeper.stdout is None:
            raise ClusterUnavailable("the cluster is not running")
        order = {
            "argv": inside(argv, cwd=self.root),
            "env": {**self.environment, **(env or {})},
            "log": str(self.root / "log" / f"{name}.log"),
        }
        self._keeper.stdin.write(json.dumps(order) + "\n")
        self._keeper.stdin.flush()
        self.pids[name] = int(self._keeper.stdout.readline())
        return self.pids[name]

    def end(self, name: str) -> None:
        """End a daemon that ``launch`` started, stopped or not, and wait until it is gone."""
        pid = self.pids.pop(name)
        for number in (signal.SIGCONT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{name} has ended")

    def _prepare(self) -> None:
        for name in ("etc", "run", "log", "spool", "dev", "munge", "work"):
            (self.root / name).mkdir()
        self.root.chmod(0o755)
        self.work.chmod(0o1777)
        (self.root / "munge").chmod(0o700)
        key = self.root / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for name in [f"gpu{i}" for i in range(4)] + [f"mig{i}" for i in range(7)]:
            # Slurm wants character devices for gres/gpu: copies of /dev/null do.
            os.mknod(self.root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        for node in self.node_names:
            (self.root / "spool" / node).mkdir()
        if OTHER_ROOT is not None:
            self._write_doors()
        self._write_configuration()

    def _write_doors(self) -> None:
        """Commands by which what runs in this root reaches the Slurm in the other."""
        (self.root / "bin").mkdir()
        for tool in ("scontrol", "sinfo", "squeue", "sbatch", "scancel", "sacctmgr", "sacct"):
            path = self.root / "bin" / tool
            path.write_text(
                f'#!/bin/sh\nPATH=/usr/sbin:/usr/bin exec chroot {OTHER_ROOT} {tool} "$@"\n'
            )
            path.chmod(0o755)

    def _write_configuration(self) -> None:
        names = ("ctld", *self.node_names)
        ports = dict(zip(names, _free_ports(len(names)), strict=True))
        asked = inside(["slurmctld", "-V"], cwd=self.root)
        version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        files = configuration(
            self.root,
            self._state,
            ports,
            group=grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name,
            min_job_age_s=self._min_job_age_s,
            version=version,
            nodes=self.nodes,
        )
        if self._database is not None:
            files = self._database.configured(files, self.root)
        for name, text in {**self._amend(files), "job_submit.lua": self._job_submit}.items():
            (self.etc / name).write_text(text)
            if name == "slurmdbd.conf":
                (self.etc / name).chmod(0o600)

    def _start(self) -> None:
        keeper = Path(__file__).with_name("cluster_keeper.py")
        self._keeper = subprocess.Popen(
            [sys.executable, str(keeper), str(self.root), str(self._state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        munge = self.root / "munge"
        self.launch(
            "munged",
            "munged",
            "--foreground",
            f"--key-file={munge}/key",
            f"--socket={self.root}/run/munge.sock",
            f"--pid-file={self.root}/run/munged.pid",
            f"--seed-file={munge}/seed",
            "--num-threads=4",
        )
        wait_until((self.root / "run" / "munge.sock").exists, "munged's socket is there")
        if self._database is not None:
            self._database.start(self)
        self.launch("slurmctld", "slurmctld", "-D", "-c", "-f", str(self.etc / "slurm.conf"))
        # A slurmd that starts before slurmctld answers waits long before it registers.
        wait_until(
            lambda: "is UP" in self.run("scontrol", "ping", check=False).stdout,
            "slurmctld answers",
            note=lambda: self.log()[-2000:],
        )
        for node in self.node_names:
            self.launch(node, *self.slurmd(node))
        wait_until(
            lambda: (
                set(self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.splitlines())
                == {f"{node} idle" for node in self.node_names}
            ),
            "all nodes are idle",
            note=lambda: self.run("sinfo", "-h", "-N", "-o", "%N %T %E").stdout,
        )


class Submitted:
    """A job that was accepted, and what sbatch told its user."""

    def __init__(self, job_id: int, message: str) -> None:
        self.id = job_id
        self.message = message


def wait_until(
    reached: Callable[[], bool],
    what: str,
    timeout_s: float = START_TIMEOUT_S,
    *,
    note: Callable[[], str] = lambda: "",
) -> None:
    """Poll until ``reached``, the less often the longer it takes: most looks start a process.

    AssertionError naming ``what`` after ``timeout_s``.
    """
    began = time.monotonic()
    while not reached():
        waited = time.monotonic() - began
        if is_over(waited, timeout_s):
            raise AssertionError(f"not within {waited:.0f} s: {what}. {note()}")
        time.sleep(min(0.02 + 0.05 * waited, 0.3))


C = TypeVar("C", bound=Cluster)


@contextlib.contextmanager
def cluster(layout: type[C] = Cluster, **options: Any) -> Iterator[C]:  # type: ignore[assignment]
    """Start a cluster; a port that somebody else took meanwhile is worth one more try."""
    for last in (False, True):
        running = layout(**options)
        try:
            running.start()
        except AssertionError:
            if last:
                raise
            continue
        break
    try:
        yield running
    finally:
        running.stop()


@contextlib.contextmanager
def cluster_or_skip(layout: type[C] = Cluster, **options: Any) -> Iterator[C]:  # type: ignore[assignment]
    """Start a cluster for a test, which is skipped, loudly, where this machine cannot run one."""
    try:
        with cluster(layout, **options) as running:
            yield running
    except (ClusterUnavailable, DatabaseUnavailable) as missing:
        pytest.skip(f"SLURM TESTS SKIPPED: {missing}")


def _short_folder() -> Path:
    """Unix socket paths hold about 108 bytes, so a deep temporary folder will not do."""
    folder = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="bsl-", dir=folder if len(folder) <= 40 else "/tmp"))


def _state_folder(root: Path) -> Path:
    """Slurm keeps some files for each job: thousands of them, so in memory where that is there."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="bsl-", dir=memory))
    state = root / "state"
    state.mkdir()
    return state


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def tool_path(name: str) -> str:
    """Where a command of Slurm is."""
    found = shutil.which(name)
    if found is None:
        raise ClusterUnavailable(f"no {name} here; `make slurm` installs Slurm")
    return found
