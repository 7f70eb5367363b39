"""slurmdbd on a MariaDB of its own, for a private cluster: one socket, two ports, no user made.

Both are started by the cluster's keeper and end with it; ``require_database`` says what is missing.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from machine_speed import is_over

if TYPE_CHECKING:
    from slurm_cluster import Cluster

DATABASE = ("mariadbd", "mariadb-install-db", "mariadb")
ACCOUNTING = ("slurmdbd", "sacctmgr")
"""Of Slurm: in the other root folder, where one is used. The database is always this machine's."""
_START_TIMEOUT_S = 60.0

_DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={root}/run/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={root}/run/slurmdbd.pid
LogFile={root}/log/slurmdbd.log
DebugLevel=info
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=tests
StorageLoc=slurm_acct_db
"""

_SLURM_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={root}/run/munge.sock
AccountingStorageTRES=gres/gpu,gres/gpu:h200
AccountingStorageEnforce=associations,limits,qos
"""

_GRANTS = """\
create database slurm_acct_db;
create user slurm@127.0.0.1 identified by 'tests';
grant all on slurm_acct_db.* to slurm@127.0.0.1;
"""


class DatabaseUnavailable(Exception):
    """This machine has no slurmdbd or no MariaDB; the message says what to do."""


def require_database() -> None:
    """Raises DatabaseUnavailable where slurmdbd or MariaDB is missing."""
    root = os.environ.get("BERTH_TEST_SLURM_ROOT")
    there = None if root is None else f"{root}/usr/sbin:{root}/usr/bin"
    missing = [tool for tool in ACCOUNTING if shutil.which(tool, path=there) is None]
    missing += [tool for tool in DATABASE if shutil.which(tool) is None]
    if missing:
        raise DatabaseUnavailable(f"no {', '.join(missing)} here; `make slurm` installs them")


class AccountingDatabase:
    """Configuration and start of slurmdbd and its MariaDB."""

    def __init__(self, qualities: Sequence[str] = ()) -> None:
        """``qualities``: QOS that partitions name, which must be there before slurmctld is."""
        require_database()
        self._qualities = tuple(qualities)
        self._ports = [0, 0]
        self._folder = Path()

    def configured(self, files: Mapping[str, str], root: Path) -> dict[str, str]:
        """The cluster's configuration files with slurmdbd's."""
        held = [socket.socket() for _ in self._ports]
        for index, one in enumerate(held):
            one.bind(("127.0.0.1", 0))
            self._ports[index] = one.getsockname()[1]
        for one in held:
            one.close()
        self._folder = root / "db"
        values = {
            "root": root,
            "host": socket.gethostname().partition(".")[0],
            "port": self._ports[0],
            "database_port": self._ports[1],
        }
        return {
            **files,
            "slurm.conf": files["slurm.conf"] + _SLURM_CONF.format(**values),
            "slurmdbd.conf": _DBD_CONF.format(**values),
        }

    def start(self, cluster: Cluster) -> None:
        """Start both and register the cluster. Raises AssertionError where that fails."""
        folder, log = self._folder, cluster.root / "log" / "mariadbd.log"
        subprocess.run(
            [
                "mariadb-install-db", "--no-defaults", f"--datadir={folder}", "--user=root",
                "--skip-test-db", "--auth-root-authentication-method=socket",
                "--innodb-flush-log-at-trx-commit=0",
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        server = shutil.which("mariadbd") or "mariadbd"  # with its path: never in another root
        cluster.launch(
            "mariadbd", server, "--no-defaults", "--user=root", f"--datadir={folder}",
            "--bind-address=127.0.0.1", f"--port={self._ports[1]}", f"--socket={folder}/my.sock",
            f"--log-error={log}", "--skip-name-resolve", "--performance-schema=OFF",
            "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0",
        )  # fmt: skip
        client = ["mariadb", "--no-defaults", f"--socket={folder}/my.sock", "-u", "root"]
        _until(lambda: _works([*client, "-e", "select 1"]), "MariaDB answers")
        subprocess.run([*client, "-e", _GRANTS], check=True, capture_output=True)
        cluster.launch("slurmdbd", "slurmdbd", "-D")
        _until(
            lambda: cluster.run("sacctmgr", "-n", "show", "cluster", check=False).returncode == 0,
            "slurmdbd answers",
        )
        cluster.run("sacctmgr", "-i", "add", "cluster", "berthtest", check=False)
        for name in self._qualities:
            cluster.run("sacctmgr", "-i", "add", "qos", name)


def _works(words: list[str]) -> bool:
    return subprocess.run(words, capture_output=True, timeout=30, check=False).returncode == 0


def _until(reached: Callable[[], bool], what: str) -> None:
    begun_s = time.monotonic()
    while not reached():
        if is_over(time.monotonic() - begun_s, _START_TIMEOUT_S):
            raise AssertionError(f"not in time: {what}")
        time.sleep(0.1)
