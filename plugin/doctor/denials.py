"""Doctor's look at what SELinux or AppArmor refused to Berth, where their log can be read."""

from __future__ import annotations

import re
from pathlib import Path

from berth.plugin.doctor.findings import Finding, Findings, Status

LOGS = (Path("/var/log/audit/audit.log"), Path("/var/log/kern.log"))
ENFORCING = Path("/sys/fs/selinux/enforce")
_TAIL_BYTES = 2**20
_DENIED = re.compile(r'avc:\s+denied|apparmor="DENIED"')
_LONGEST = 200


def check_denials(logs: tuple[Path, ...] = LOGS, enforcing: Path = ENFORCING) -> Findings:
    """The last refusal that names Berth; that SELinux enforces, where no log may be read."""
    unread = False
    for log in logs:
        try:
            lines = _tail(log)
        except FileNotFoundError:
            continue
        except OSError:
            unread = True
            continue
        found = [line for line in lines if _DENIED.search(line) and "berth" in line.lower()]
        if found:
            yield Finding(
                "denials",
                Status.WARN,
                f"{len(found)} refusals in {log}, the last: {found[-1].strip()[:_LONGEST]}",
                "ausearch -m avc -ts recent | audit2allow -w (SELinux), aa-logprof (AppArmor)",
            )
    if unread and _is_on(enforcing):
        yield Finding(
            "denials",
            Status.WARN,
            "SELinux is enforcing, and its log may not be read by this user",
            "as root: berth doctor, or ausearch -m avc | grep berth",
        )


def _tail(log: Path) -> list[str]:
    with log.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL_BYTES))
        return stream.read(_TAIL_BYTES).decode("utf-8", "replace").splitlines()


def _is_on(enforcing: Path) -> bool:
    try:
        return enforcing.read_text().strip() == "1"
    except OSError:
        return False
