"""A clean Debian in a folder of its own, with its own systemd, as a machine that a test breaks.

The root folder is made once by debootstrap; each machine is an overlay over it, thrown away after.
It has its own processes, mounts and host name, and this machine's network.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOTS = Path(os.environ.get("BERTH_PACKAGES_ROOTS", "/var/tmp/berth-packages"))
MIRROR = os.environ.get("BERTH_MATRIX_MIRROR", "http://deb.debian.org/debian")
START = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$0/tmp"; mount -t tmpfs -o mode=755 tmpfs "$0/run"; mkdir "$0/run/lock"
mount -t proc proc "$0/proc"; mount -t sysfs -o ro sysfs "$0/sys"
mount --bind "$0/proc/sys" "$0/proc/sys"; mount -o remount,ro,bind "$0/proc/sys"
mount -t tmpfs -o mode=755 tmpfs "$0/dev"; mkdir "$0/dev/pts" "$0/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"; ln -s pts/ptmx "$0/dev/ptmx"
mount -t tmpfs tmpfs "$0/dev/shm"; ln -s /proc/self/fd "$0/dev/fd"
mknod -m 666 "$0/dev/null" c 1 3; mknod -m 666 "$0/dev/zero" c 1 5
mknod -m 666 "$0/dev/random" c 1 8; mknod -m 666 "$0/dev/urandom" c 1 9
mknod -m 666 "$0/dev/tty" c 5 0; : >"$0/dev/console"
mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
echo clean >"$0/etc/hostname"; echo 127.0.0.1 clean >>"$0/etc/hosts"
cd "$0"; mkdir -p old; pivot_root . old; umount -l /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
  --unit=multi-user.target --log-target=journal
"""


FETCHED = ("slurmctld", "slurmd", "lua-socket", "lua-cjson")
"""What the tests install: fetched once, not installed."""


class NoCleanDebian(Exception):
    """This machine cannot run one; the message says why."""


class Machine:
    """A running clean Debian; commands are run as its root."""

    def __init__(self, root: Path, pid: int) -> None:
        self.root = root
        self._pid = pid

    def run(
        self, command: str, *, check: bool = True, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a line of shell inside. AssertionError where it fails and ``check``."""
        done = subprocess.run(
            self.words(command), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def start(self, command: str) -> subprocess.Popen[str]:
        """The same without waiting for its end."""
        return subprocess.Popen(
            self.words(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def words(self, command: str) -> list[str]:
        """How a line of shell is started inside."""
        inside = ["nsenter", "--target", str(self._pid), "--mount", "--uts", "--ipc", "--pid",
                  "--cgroup", "--root", "--wd"]  # fmt: skip
        clean = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
                 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]  # fmt: skip
        return [*inside, *clean, "sh", "-c", f"cd /srv && {command}"]

    def wait_for(self, command: str, timeout_s: float = 60) -> None:
        """Wait until the command succeeds inside. AssertionError with what it said last."""
        ends = time.monotonic() + timeout_s
        while (done := self.run(command, check=False)).returncode != 0:
            if time.monotonic() > ends:
                log = self.run("journalctl --no-pager --lines 40", check=False).stdout
                raise AssertionError(f"not in {timeout_s:.0f} s: {command}: {done.stderr}\n{log}")
            time.sleep(0.3)


def base(release: str, *more: str) -> Path:
    """The root folder of a release with systemd and nothing else but ``more``, made once."""
    if os.geteuid() != 0:
        raise NoCleanDebian("only root can make a clean Debian")
    if shutil.which("debootstrap") is None:
        raise NoCleanDebian("no debootstrap here: make packages-check installs it")
    root = ROOTS / "-".join([release, *more])
    if (root / "made").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    wanted = ",".join(["systemd", "systemd-sysv", "ca-certificates", *more])
    words = ["debootstrap", "--variant=minbase", f"--include={wanted}", release, str(root), MIRROR]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoCleanDebian(f"debootstrap {release}: {done.stdout[-500:]}")
    for name in ("hosts", "resolv.conf"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    (root / "etc/apt/apt.conf.d/still-mirror").write_text('Acquire::Check-Valid-Until "false";\n')
    for words in (["update"], ["install", "--download-only", "--yes", *FETCHED]):
        subprocess.run(["chroot", root, "apt-get", "-q", *words], check=True, capture_output=True)
    (root / "made").touch()
    return root


@contextlib.contextmanager
def machine(release: str) -> Iterator[Machine]:
    """Boot a clean one. NoCleanDebian where this machine cannot."""
    lower = base(release)
    folder = Path(tempfile.mkdtemp(prefix="machine-", dir=ROOTS))
    root = folder / "root"
    for name in ("root", "upper", "work"):
        (folder / name).mkdir()
    layers = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, root], check=True)
    outer = subprocess.Popen(
        ["unshare", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child",
         "sh", "-c", START, str(root)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        running = Machine(root, _first_child(outer))
        running.wait_for("systemctl is-system-running | grep -E 'running|degraded'")
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(outer.pid, signal.SIGKILL)
        outer.wait(timeout=30)
        subprocess.run(["umount", "--lazy", root], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _first_child(outer: subprocess.Popen[str]) -> int:
    """Process id, seen from here, of the machine's first process once it is systemd."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        if outer.poll() is not None:
            said = outer.stdout.read() if outer.stdout else ""
            raise NoCleanDebian(f"a clean Debian does not start here: {said.strip()}")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd":
            return int(children[0])
        time.sleep(0.1)
    raise NoCleanDebian("a clean Debian does not start here within 20 s")
