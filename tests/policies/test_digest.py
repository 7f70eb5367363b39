"""The id of a decision is the same on every machine and in every run of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = """
from policy_builders import *
from berth.policies.settings import PolicySettings
from one_decision import decide
places = (cpu(allowed_users=frozenset("ada bob eve".split())), gpu())
asked = request(allowed_queues=frozenset("cpu gpu mig long short".split()))
curves = curve("cpu", 800.0), curve("gpu", 20.0, gpus=True)
program = forecast(*curves, digest="sha256:one")
print(decide(asked, places, states(*places), program, PolicySettings(), now_s=NOW_S).inputs_digest)
"""


def test_sets_of_names_do_not_change_the_digest_from_run_to_run() -> None:
    digests = set()
    for seed in ("0", "1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE.parent / "support")},
            cwd=HERE,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
