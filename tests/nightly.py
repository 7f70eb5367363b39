"""Run the long checks one after the other and print a table of them: ``make nightly``.

Each is a target of the Makefile, described by ``make help``. One that fails does not stop the rest.

    python tests/nightly.py [TARGET...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = (
    "demo", "audit", "simulate", "soak", "fuzz", "mutation", "gate",
    "lowest", "coverage", "mig-sweep", "differential", "test-flux", "differential-flux",
    "fresh-site", "replay-fidelity", "packages-check", "newest-python", "optional", "matrix",
)  # fmt: skip
"""Those that need Python alone come before those that need a scheduler or root."""
OF_THE_MACHINE = (
    "NO REAL GPU HERE", "needs a machine without a GPU", "SHAPED BY",
    "control groups", "NOT TESTED HERE",
    "no such vectors here", "lets nobody mount an overlay",
)  # fmt: skip
"""Reasons for skipping a test that no package removes: the kernel or the hardware decides."""
NOT_SKIPPED_IN = {
    # `make test`, as root and with what its targets install, where BERTH_DATASETS is a folder.
    "test": (
        "importorskip|needs the extra|codespell", "C compiler|OpenMP|does not build it|AVX2",
        "valgrind|counts instructions|objdump|/bin/dash", "lua|SLURM|setpriv",
        "POSTGRESQL|chromium|dpkg-deb|git checkout", "(?i)only root|needs root|root to become",
        "BERTH_DATASETS|FOLDER_VARIABLE|error.message|missing|absent", "of this root",
        "NOT TESTED WITH {name}|batchtools|make emulators", *OF_THE_MACHINE,
    ),
    "optional": (
        "no mpicc", "no (bash|fish|zsh) here", "NVRTC",
        "systemd-analyze|{tool}",
    ),
    "test-flux": ("why_no_flux|REAL FLUX",),
}  # fmt: skip
"""By target, expressions of the reasons for which a test is skipped elsewhere but not there."""


def run(targets: Sequence[str]) -> list[tuple[str, float, int]]:
    """Run each target by make; its name, seconds and exit status, in the order given."""
    results = []
    for target in targets:
        print(f"\n== make {target}", flush=True)
        began = time.monotonic()
        command = ["make", "--no-print-directory", target, "DEMO_PAGE_MINUTES=1"]
        finished = subprocess.run(command, cwd=ROOT, check=False)
        results.append((target, time.monotonic() - began, finished.returncode))
    return results


def table(results: Sequence[tuple[str, float, int]]) -> str:
    """Return a line for each target: its name, its seconds and its verdict."""
    lines = [f"{'target':<18}{'seconds':>9}  verdict"]
    for target, seconds, status in results:
        verdict = "passed" if status == 0 else f"FAILED (exit status {status})"
        lines.append(f"{target:<18}{seconds:>9.0f}  {verdict}")
    return "\n".join(lines)


def main() -> int:
    """Return 0 where every target passed, 1 where one failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("targets", nargs="*", metavar="TARGET", help="only these (default: all)")
    results = run(options.parse_args().targets or TARGETS)
    print(f"\n{table(results)}")
    return int(any(status for _, _, status in results))


if __name__ == "__main__":
    sys.exit(main())
