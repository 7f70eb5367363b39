"""Our own commands in a process beside the daemon, at low priority, on one core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from berth.pilot.errors import BerthError
from berth.plugin.site.site import Site

_NICE = 10


def ask_beside(site: Site, command: str, *, longest_s: float) -> dict[str, Any]:
    """The JSON object that ``berth COMMAND --json`` prints for the site. Raises BerthError."""
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", program, *command.split(), "--json", "--site", site.source]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("BERTH_STORE", None)
    try:
        done = subprocess.run(  # our own command, without a shell
            ["nice", "-n", str(_NICE), *words],
            env=environment, capture_output=True, text=True, timeout=longest_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BerthError(f"berth {command} did not end: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise BerthError(f"berth {command} failed: {said[-1] if said else done.returncode}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise BerthError(f"berth {command} answered with something else than JSON")
    return answer
