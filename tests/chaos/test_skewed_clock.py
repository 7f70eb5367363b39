"""The daemon's clock in a chaos run: only what the wall clock says is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chaos.clock import SkewedClock, c_compiler

COMPILER = c_compiler()
DAY_S = 86_400
PROGRAM = """
import datetime, json, sqlite3, subprocess, sys, time
def look():
    ran = subprocess.run(["date", "+%s"], stdout=subprocess.PIPE, timeout=20)
    ((at,),) = sqlite3.connect(":memory:").execute("SELECT strftime('%s', 'now')")
    print(json.dumps({
        "time": time.time(), "datetime": datetime.datetime.now().timestamp(),
        "date": int(ran.stdout), "sqlite": int(at), "monotonic": time.monotonic(),
    }), flush=True)
look()
for _ in range(20):
    time.sleep(0.001)
    subprocess.run(["sh", "-c", "exec >&-; sleep 0.01"], stdout=subprocess.PIPE, timeout=20)
sys.stdin.readline()
look()
"""


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_a_skewed_clock_moves_the_wall_clock_alone_and_nothing_fails(tmp_path: Path) -> None:
    assert COMPILER is not None
    clock = SkewedClock(tmp_path, COMPILER)
    clock.set(-DAY_S)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **clock.environment}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for skew_s in (-DAY_S, 61):
            found = json.loads(process.stdout.readline())
            assert found.pop("monotonic") == pytest.approx(time.monotonic(), abs=30)
            for name, at_s in found.items():
                assert at_s == pytest.approx(time.time() + skew_s, abs=30), name
            clock.set(61)
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait() == 0
