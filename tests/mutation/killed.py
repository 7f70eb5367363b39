"""How many mutants (``mutants.py``, standard input) the tests of the submit path notice.

Each is imported in a child of a process that has imported all else, so that one takes a second or
two. One is killed when a test fails, or when the tests take five times the processor time that
they take without it.

    python mutants.py MODULE... | python killed.py [--least PERCENT]
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BEFORE = (
    "hypothesis", "numpy", "pydantic", "sqlalchemy", "click", "berth.pilot.documents",
    "berth.predictor.core.forecast",
)  # fmt: skip
"""Imported once: nothing of theirs is mutated."""
TESTS = {
    "policies": (
        "tests/policies/test_decide.py", "tests/policies/test_translate.py",
        "tests/policies/test_job_limits.py", "tests/policies/test_objectives.py",
        "tests/policies/test_slices.py", "tests/policies/test_forecast_decided.py",
        "tests/policies/test_digest.py", "tests/policies/test_lists.py",
        "tests/policies/test_properties.py", "tests/policies/test_memory.py",
        "tests/policies/test_drawn_decisions.py", "tests/policies/test_what_a_move_costs.py",
    ),
    "plugin": (
        "tests/plugin/daemon/test_service.py", "tests/plugin/daemon/test_answers_over_time.py",
        "tests/plugin/daemon/test_memory_made_less.py", "tests/plugin/daemon/test_requests.py",
        "tests/plugin/daemon/test_untyped_gpus.py", "tests/plugin/daemon/test_messages.py",
        "tests/plugin/test_usernames.py", "tests/plugin/daemon/test_protocol_page.py",
    ),
}  # fmt: skip
"""By a module's room."""
LONGEST_S = 300.0
FACTOR = 5.0


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source."""

    def __init__(self, path: str, source: str) -> None:
        self._name = f"berth.{path.removesuffix('.py').replace('/', '.')}"
        self._path, self._source = ROOT / path, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(self._path))

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)  # noqa: S102 - ours


def fails(path: str, source: str, most_s: float) -> tuple[bool, float]:
    """Whether the tests of a module notice another source, and their processor time."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(ROOT)
            resource.setrlimit(resource.RLIMIT_CPU, (round(most_s), round(most_s) + 1))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            sys.meta_path.insert(0, Mutated(path, source))
            words = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
            status = int(pytest.main([*words, *TESTS[path.partition("/")[0]]]) != 0)
        finally:
            os._exit(status)
    begun_s = time.monotonic()
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            return status != 0, used.ru_utime + used.ru_stime
        if time.monotonic() - begun_s > LONGEST_S:
            os.kill(child, 9)
        time.sleep(0.05)


def difference(path: str, source: str) -> str:
    """The lines that a mutant has changed."""
    before, after = (ROOT / path).read_text().splitlines(), source.splitlines()
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return "\n".join(f"  {line}" for line in list(lines)[2:])


def main() -> int:
    """0: as many were noticed as demanded."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--least", type=float, default=85.0, help="percent")
    given = options.parse_args()
    for name in BEFORE:
        importlib.import_module(name)
    usual_s: dict[str, float] = {}
    total = killed = 0
    for line in sys.stdin:
        one = json.loads(line)
        path, source = one["module"], one["source"]
        room = path.partition("/")[0]
        if room not in usual_s:
            noticed, usual_s[room] = fails(path, (ROOT / path).read_text(), 600.0)
            if noticed:
                print(f"the tests of {room} fail as they are")
                return 1
        noticed, _ = fails(path, source, max(10.0, FACTOR * usual_s[room]))
        total, killed = total + 1, killed + noticed
        if not noticed:
            print(
                f"{path}: {one['operator']} was not noticed\n{difference(path, source)}", flush=True
            )
    share = 100.0 * killed / max(1, total)
    print(f"{killed} of {total} mutants were noticed: {share:.0f} % (bar {given.least:g} %)")
    return 0 if share >= given.least else 1


if __name__ == "__main__":
    sys.exit(main())
