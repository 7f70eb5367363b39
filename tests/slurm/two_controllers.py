"""A backup controller beside a private cluster's own, on a host name and an address of its own."""

from __future__ import annotations

import re
import socket

from slurm_cluster import Cluster, wait_until

TAKEOVER_S = 5
BACKUP = "backup"
_AS_BACKUP = """\
mkdir -p "$0/run/backup" "$0/run/controller"
mount --bind "$0/run/backup" "$0/run/controller"
sed '$a 127.0.0.2 backup' /etc/hosts >"$0/run/backup/hosts"
mount --bind "$0/run/backup/hosts" /etc/hosts
hostname backup
exec slurmctld -D -f "$0/etc/slurm.conf"
"""
"""A host of its own: name, address, and a folder for the process id of its slurmctld."""


def two_controllers(files: dict[str, str]) -> dict[str, str]:
    """The configuration with the primary on 127.0.0.1 and the backup on 127.0.0.2, on one port."""
    host = socket.gethostname().partition(".")[0]
    first = f"SlurmctldHost={host}(127.0.0.1)"
    text = files["slurm.conf"].replace(first, f"{first}\nSlurmctldHost={BACKUP}(127.0.0.2)")
    text = re.sub(r"^SlurmctldTimeout=.*", f"SlurmctldTimeout={TAKEOVER_S}", text, flags=re.M)
    text = text.replace("/run/slurmctld.pid", "/run/controller/slurmctld.pid")
    return {**files, "slurm.conf": f"{text}CommunicationParameters=NoCtldInAddrAny\n"}


def launch_backup(running: Cluster) -> None:
    """Start the backup controller and wait until both answer."""
    own = ("unshare", "--uts", "--mount")
    running.launch(BACKUP, *own, "sh", "-e", "-c", _AS_BACKUP, str(running.root))
    wait_until_both_answer(running)


def wait_until_both_answer(running: Cluster, timeout_s: float = 300) -> None:
    """Wait for the primary and the backup. Raises AssertionError."""
    wait_until(
        lambda: running.run("scontrol", "ping", check=False).stdout.count("is UP") == 2,
        "both controllers answer",
        timeout_s,
        note=lambda: running.log(BACKUP)[-2000:],
    )
