"""The kernels' check passes, and finds five planted faults, on CPUs that this machine has not."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest
from emulated_kernels import CPUS, FAULTS, KERNELS, LIMIT_S, RATES, build, checked


@pytest.mark.parametrize("name", ["aarch64", pytest.param("Nehalem", marks=pytest.mark.slow)])
def test_the_check_passes_and_finds_five_faults(name: str, tmp_path: Path) -> None:
    cpu = CPUS[name]
    if cpu.level and platform.machine() != "x86_64":
        pytest.skip("no such vectors here")
    try:
        emulator = cpu.command()
    except LookupError as missing:
        pytest.skip(f"{missing.args[0]} (`make emulators` installs it)")
    right, wrong = build(cpu, tmp_path)
    assert checked([*emulator, str(right)])[:2] == (KERNELS, [])
    for rate in RATES:
        bench = [*emulator, str(right), "bench", rate, "--seconds", "0.01"]
        done = subprocess.run(bench, capture_output=True, check=True, timeout=LIMIT_S)
        assert json.loads(done.stdout)["value"], rate
    assert sorted(checked([*emulator, str(wrong)])[1]) == sorted(FAULTS)
