"""A real ``berth serve`` for tests: started on a socket of its own, stopped by its pid.

Also here: forecasts made by hand (no predictor needed), a site file over them, and stand-ins for
Slurm's reading commands, so that candidates have a state without a cluster.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from empty_stores import open_store
from fake_commands import FakeCommands
from machine_speed import is_over
from made_forecasts import around, curve, program
from warm_berth import FRESH, Forked, can_fork

from berth.pilot.errors import BerthError
from berth.plugin.daemon.client import ask
from berth.plugin.store import Store
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis

READY_S = 60.0


def wait_until(condition: Callable[[], Any], timeout_s: float = 60.0, what: str = "") -> Any:
    """The first true value of ``condition``; AssertionError when it does not come in time."""
    began = time.monotonic()
    while True:
        found = condition()
        if found:
            return found
        waited = time.monotonic() - began
        if is_over(waited, timeout_s):
            raise AssertionError(f"not within {waited:.0f} s: {what or condition}")
        time.sleep(min(0.005 + 0.05 * waited, 0.2))


def forecast(
    name: str,
    cpu_s: float = 600.0,
    gpu_s: float = 60.0,
    *,
    platforms: Sequence[tuple[str, bool]] = (("rome-7742", False), ("a100-80gb", True)),
    basis: Basis = Basis.CALIBRATED,
    abstained: str | None = None,
    bundle: str = "bundle-of-tests",
) -> Forecast:
    """A program that takes ``cpu_s`` on one core, scales to 64, and ``gpu_s`` on one GPU."""
    on_gpu, on_cpu = {1: around(gpu_s)}, {1: around(cpu_s), 64: around(cpu_s / 50)}
    curves = {
        platform: curve(
            name, platform, on_gpu if gpu else on_cpu, gpu=gpu, memory=around(2e9),
            reference_s=600.0, basis=basis, abstained=abstained,
        )
        for platform, gpu in platforms
    }  # fmt: skip
    return program(
        name, curves, reference="rome-7742", reference_s=600.0, bundle=bundle, peak_bytes=2e9,
        digest=f"sha256:{name}-{cpu_s}-{gpu_s}",
    )  # fmt: skip


# A site and its cluster

SITE = """\
schema = "berth.site/1"
mode = "{mode}"

[site]
name = "tests"
reference_platform = "rome-7742"
auto_partition = "auto"

[daemon]
socket = "berth.sock"
user_socket = "users.sock"
store = "{store}"
kill_switch = "off"
scheduler_users = ["{user}"]
state_refresh_s = 1.0
{daemon}

[fit]
mode = "off"

[coverage]
interactive = true
{coverage}

[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "cpu"
cores_per_node = 64
memory_per_node = "256G"
nodes = 2

[[candidates]]
name = "gpu"
platform = "a100-80gb"
partition = "gpu"
gres = "gpu:a100"
gpus_per_node = 4
cores_per_node = 32
memory_per_node = "256G"
nodes = 1
[candidates.translation]
gpus = 1
cpus_per_gpu = 8
"""

PARTITIONS = """\
PartitionName=cpu AllowAccounts=ALL AllowQos=ALL Default=YES MaxTime=UNLIMITED DefaultTime=NONE \
State=UP TotalCPUs=128 TotalNodes=2 Nodes=cpu[1-2]
PartitionName=gpu AllowAccounts=ALL AllowQos=ALL Default=NO MaxTime=UNLIMITED DefaultTime=NONE \
State=UP TotalCPUs=32 TotalNodes=1 Nodes=gpu1
PartitionName=auto AllowAccounts=ALL AllowQos=ALL Default=NO MaxTime=UNLIMITED DefaultTime=NONE \
State=UP TotalCPUs=128 TotalNodes=2 Nodes=cpu[1-2]
"""

NODES = """\
NodeName=cpu1 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUTot=64 Gres=(null) RealMemory=262144 \
Sockets=2 State=IDLE Partitions=cpu,auto
NodeName=cpu2 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUTot=64 Gres=(null) RealMemory=262144 \
Sockets=2 State=IDLE Partitions=cpu,auto
NodeName=gpu1 Arch=x86_64 CoresPerSocket=16 CPUAlloc=0 CPUTot=32 Gres=gpu:a100:4 \
GresUsed=gpu:a100:0 RealMemory=262144 Sockets=2 State=IDLE Partitions=gpu
"""


CONFIGURATION = """\
AuthType = auth/none
ClusterName = slurm
GresTypes = gpu
JobAcctGatherType = jobacct_gather/cgroup
JobSubmitPlugins = lua
MinJobAge = 300 sec
SLURM_VERSION = 22.05.8
SelectType = select/cons_tres
SlurmctldHost[0] = elsewhere
"""


def fake_slurm(tools: Path, *, partitions: str = PARTITIONS, nodes: str = NODES) -> FakeCommands:
    """Slurm's commands in the folder ``tools``, of the site above."""
    made = FakeCommands(tools)
    made.says("partition", partitions)
    made.says("node", nodes)
    made.says("config", CONFIGURATION)
    made.says("version", "slurm 22.05.8\n")
    return made


# The daemon


@dataclass
class RunningDaemon:
    """A started ``berth serve``. ``log`` is its standard error so far."""

    process: subprocess.Popen[bytes] | Forked
    site_file: Path
    socket: Path
    log_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def ask(self, **message: Any) -> dict[str, Any]:
        return ask(self.socket, {"v": 1, **message}, timeout_s=10)

    def decide(self, *, scheduler: str = "slurm", **job: Any) -> dict[str, Any]:
        described = {"user": "alice", "uid": 1000, "kind": "batch", **job}
        return self.ask(op="decide", scheduler=scheduler, job=described)

    def stats(self) -> dict[str, Any]:
        """What ``stats`` answers."""
        return self.ask(op="stats")

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 15.0) -> int:
        """End it (SIGTERM) and give its exit status."""
        if self.process.poll() is None:
            os.kill(self.pid, number)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def start_daemon(
    site_file: Path,
    socket_path: Path,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    path: Path | None = None,
    wait: bool = True,
    fresh: bool = False,
) -> RunningDaemon:
    """Start ``berth serve`` and wait until it answers; AssertionError with its log if it does not.

    ``path`` goes in front of PATH (``fake_slurm``). ``fresh``: an interpreter of its own, where a
    test is about the start or the size; else it is forked from one that has imported Berth.
    """
    settings = dict(os.environ)
    settings.update(environment or {})
    if path is not None:
        settings["PATH"] = f"{path}:{settings['PATH']}"
    log_file = site_file.with_suffix(".log")
    words = ("serve", "--site", str(site_file), *arguments)
    process: subprocess.Popen[bytes] | Forked
    if not fresh and can_fork(environment):
        process = Forked(words, env=settings, stdout=log_file, stderr=log_file)
    else:
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                [*FRESH, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=settings
            )
    daemon = RunningDaemon(process, site_file, socket_path, log_file, settings)
    if not wait:
        return daemon
    deadline = time.monotonic() + READY_S
    while True:
        if process.poll() is not None:
            raise AssertionError(f"berth serve ended with {process.returncode}:\n{daemon.log}")
        try:
            daemon.ask(op="ping")
        except BerthError:
            if time.monotonic() > deadline:
                daemon.stop(signal.SIGKILL)
                raise AssertionError(f"berth serve is not ready:\n{daemon.log}") from None
            time.sleep(0.01)
        else:
            return daemon


@dataclass
class SiteFolder:
    """A folder for a site, its store and its daemons."""

    folder: Path
    store_url: str
    daemons: list[RunningDaemon] = field(default_factory=list)

    @property
    def site_file(self) -> Path:
        return self.folder / "berth.toml"

    @property
    def socket(self) -> Path:
        return self.folder / "berth.sock"

    @property
    def kill_switch(self) -> Path:
        """Make this file to stop every placement."""
        return self.folder / "off"

    def write(self, text: str) -> Path:
        """(Re)write the site file, at once for a reader."""
        fresh = self.site_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.site_file)
        return self.site_file

    def store(self) -> Store:
        """The store, made if need be."""
        return open_store(self.store_url)

    def start_daemon(self, *, state: bool, **options: Any) -> RunningDaemon:
        """A daemon; with ``state`` also wait until it knows the cluster's state."""
        daemon = start_daemon(self.site_file, self.socket, **options)
        self.daemons.append(daemon)
        if state:
            wait_until(
                lambda: daemon.stats()["state_age_s"] is not None,
                what=f"the cluster's state\n{daemon.log}",
            )
        return daemon

    @classmethod
    @contextmanager
    def open(cls, store_url: str | None = None) -> Iterator[Self]:
        """A new folder with a short path (socket paths are limited), removed afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="berth-"))
        folder.chmod(0o755)
        opened = cls(folder, store_url or f"sqlite:///{folder}/store.db")
        try:
            yield opened
        finally:
            for daemon in opened.daemons:
                daemon.stop(signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


class Harbour(SiteFolder):
    """A site on a (fake) Slurm, its store and what is needed to start daemons on them."""

    @property
    def user_socket(self) -> Path:
        """Where users are served, once ``serve_users`` was called."""
        return self.folder / "users.sock"

    def serve_users(self) -> RunningDaemon:
        """Start ``berth serve --users`` and wait until it listens."""
        server = start_daemon(self.site_file, self.user_socket, arguments=["--users"], wait=False)
        self.daemons.append(server)
        wait_until(self.user_socket.exists, 60, what=f"the users' socket\n{server.log}")
        return server

    def write_site(
        self, *, mode: str = "enforce", user: str = "root", daemon: str = "", coverage: str = ""
    ) -> Path:
        """(Re)write the site file, at once for a reader."""
        text = SITE.format(
            mode=mode, store=self.store_url, user=user, daemon=daemon, coverage=coverage
        )
        return self.write(text)

    def start(self, *, state: bool = True, **options: Any) -> RunningDaemon:
        """A daemon; with ``state`` also wait until it knows the (fake) cluster's state."""
        if state:
            options.setdefault("path", fake_slurm(self.folder / "bin").tools)
        return self.start_daemon(state=state, **options)


@contextmanager
def harbour(store_url: str | None = None) -> Iterator[Harbour]:
    with Harbour.open(store_url) as opened:
        opened.write_site()
        yield opened


def raw(path: Path, *parts: bytes, timeout_s: float = 10.0) -> bytes:
    """Send bytes as they are, close our sending side, and give all that comes back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(timeout_s)
        peer.connect(str(path))
        received = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all is sent
            for part in parts:
                peer.sendall(part)
            peer.shutdown(socket.SHUT_WR)
        with suppress(BrokenPipeError, ConnectionResetError):
            while part := peer.recv(65536):
                received += part
        return received
