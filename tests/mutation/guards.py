"""Which guards of the promise the random pairs notice when one is switched off: fifteen, in a copy.

    PYTHONPATH=tests/slurm:tests/support python tests/mutation/guards.py [NAME...]

Each runs until the first difference, at most 245 jobs to their end and 245 as submitted (a batch in
each world). Prints a line a guard; the exit status is 1 where one was not noticed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("pilot", "predictor", "policies", "plugin")
OUTCOMES, PAIRS, BATCH = 245, 245, 35


class Guard(NamedTuple):
    """One guard: the text that makes it, and what stands there where it is off."""

    name: str
    file: str
    before: str
    after: str


def _nothing(name: str, file: str, head: str, value: str = "return None") -> Guard:
    """A function that says that all is well; ``head``: its first line or lines."""
    return Guard(name, file, head, f"{head}    {value}\n")


GATE, LUA = "policies/gate.py", "plugin/slurm/job_submit.lua"
GUARDS = (
    *(
        Guard(rule, GATE, f"    _{rule}, ", "    ") if rule == "time"
        else Guard(rule, GATE, f" _{rule},", "")
        for rule in ("time", "interruption", "sharing", "cores", "memory", "bill")
    ),
    Guard("memory held", "policies/resources.py", "    if before is None:\n", "    if True:\n"),
    _nothing("shape kept", "policies/resources.py",
             "    rule = candidate.translation.keep_tasks\n", "return False"),
    Guard("own GPUs", "policies/constraints.py",
          "    request, candidate = case.request, case.candidate\n"
          "    if request.gres is None or asks_for_none(request.gres):\n",
          "    request, candidate = case.request, case.candidate\n    return None\n"
          "    if request.gres is None or asks_for_none(request.gres):\n"),
    _nothing("own features", "policies/constraints.py",
             "    asked = case.request.features\n    prefer = case.request.needs.prefer\n"),
    Guard("limits of queues", "policies/present.py", "    within_queue_bounds,\n", ""),
    Guard("limits of accounts", "policies/present.py", "    within_account_limits,\n", ""),
    _nothing("untranslated", LUA,
             "local function untranslated(job, edits, details, partitions, fields)\n",
             "do return nil end"),
    _nothing("ranks' export", LUA, "  local function export(key, value, always)\n",
             "  do return end"),
    Guard("nodes", LUA, '  set("min_nodes", edits.nodes)\n  set("max_nodes", edits.nodes)\n', ""),
)  # fmt: skip


def main() -> int:
    """Switch each off, or those named, and say what came of it."""
    wanted = sys.argv[1:]
    unnoticed = 0
    for guard in GUARDS:
        if not wanted or guard.name in wanted:
            begun = time.monotonic()
            seen = noticed(guard)
            unnoticed += seen is None
            said = "NOT NOTICED" if seen is None else f"noticed: {seen}"
            print(f"{guard.name:20} {time.monotonic() - begun:5.0f} s  {said}", flush=True)
    return int(unnoticed > 0)


def noticed(guard: Guard) -> str | None:
    """The first difference without the guard; None: there was none."""
    with tempfile.TemporaryDirectory(prefix="guards-") as folder:
        copy = Path(folder)
        (copy / "berth").mkdir()
        for room in (*ROOMS, "tests"):
            shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
            if room != "tests":
                (copy / "berth" / room).symlink_to(copy / room)
        file = copy / guard.file
        text = file.read_text()
        if text.count(guard.before) != 1:
            raise SystemExit(f"{guard.name}: its text is {text.count(guard.before)} times in it")
        file.write_text(text.replace(guard.before, guard.after))
        words = ("--outcomes", str(OUTCOMES), "--pairs", str(PAIRS), "--batch", str(BATCH))
        done = subprocess.run(
            (sys.executable, "-m", "slurm_differential.run", *words, "--until-different",
             "--report", str(copy / "report" / "slurm.jsonl")),
            cwd=copy, capture_output=True, text=True, check=False,
            env={**os.environ,
                 "PYTHONPATH": f"{copy}:{copy / 'tests/slurm'}:{copy / 'tests/support'}"},
        )  # fmt: skip
        found = re.search(r"^DIFFERENCE (.*)$", done.stdout, re.MULTILINE)
        if found is None and done.returncode not in (0, 1):
            raise SystemExit(done.stdout + done.stderr)
        return None if found is None else found[1][:160]


if __name__ == "__main__":
    sys.exit(main())
