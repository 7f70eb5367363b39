"""Install the wheel without extras under other Pythons, and let every command answer; a row each.

    python tests/machines/pythons.py            (as root; `make machines`)

The Pythons are those of the root folders that tests/machines/roots makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernel_matrix import ROOTS

from berth.plugin.cli.tree import COMMANDS

PROJECT = Path(__file__).parents[2]
ROOT_OF = {"3.13": ROOTS[0], "3.14": ROOTS[0].with_name("sid")}
NEEDED = ("pip.conf", "hosts", "resolv.conf", "ssl/certs/ca-certificates.crt")
"""Files of /etc by which pip reaches its index."""


def verdict(root: Path, wheel: Path) -> str:
    """Return "passed", or what failed or is missing."""
    if os.geteuid() != 0 or not (root / "made").exists():
        return f"skipped: no {root}"
    for file in NEEDED:
        if (source := Path("/etc") / file).exists():
            (root / "etc" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / "etc" / file)
    with tempfile.TemporaryDirectory(prefix="berth-", dir=root / "tmp") as folder:
        shutil.copy(wheel, folder)
        inside = folder.removeprefix(str(root))
        steps = [
            ["python3", "-m", "venv", f"{inside}/venv"],
            [f"{inside}/venv/bin/pip", "install", "-q", f"{inside}/{wheel.name}"],
            *([f"{inside}/venv/bin/berth", command, "--help"] for command in COMMANDS),
        ]
        for step in steps:
            done = subprocess.run(
                ["chroot", str(root), *step], capture_output=True, text=True, check=False,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": inside, "LANG": "C.UTF-8"},
            )  # fmt: skip
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
                return f"FAILED: {' '.join(step[:3])} says {said[-1]}"
    return f"passed ({len(COMMANDS)} commands)"


def main() -> int:
    """Print the rows; 1 where one failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, PROJECT]
        subprocess.run(build, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        for version, root in ROOT_OF.items():
            text = verdict(root, wheel)
            print(f"python   {version:<15} {text}", flush=True)
            failed += text.startswith("FAILED")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
