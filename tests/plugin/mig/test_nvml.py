"""The adapter through the real binding: what it reads, and what it says when it cannot."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml import GRAPHICS, MPS, PROFILE_IDS, FakeFleet

from berth.pilot.errors import BerthError
from berth.plugin.mig.errors import NvmlFailure
from berth.plugin.mig.nvml import Nvml
from berth.policies.mig import GpuInstance, diff, lookup
from berth.policies.mig.layout import enumerate_states

READ = "from berth.plugin.mig.nvml import Nvml\nwith Nvml() as n: print(len(n.read()))\n"


@pytest.mark.parametrize("model", list(PROFILE_IDS))
def test_the_driver_and_the_table_agree_on_the_geometry(fleet: FakeFleet, model: str) -> None:
    fleet.reset(model)
    with Nvml() as nvml:
        (gpu,) = nvml.read()
    assert gpu.geometry is not None
    found = diff(lookup(gpu.name), gpu.geometry)
    # Usable memory differs by some MiB between drivers.
    assert [d for d in found if d.profile in PROFILE_IDS[model] and d.field != "memory_bytes"] == []


@pytest.mark.parametrize("model", ["a30", "a100-40"])
def test_every_layout_can_be_made_read_and_destroyed(fleet: FakeFleet, model: str) -> None:
    """Set, get, for every reachable layout of the model: none is refused by the driver's rules."""
    fleet.reset(model)
    with Nvml() as nvml:
        (gpu,) = nvml.read()
        assert gpu.geometry is not None
        states = enumerate_states(gpu.geometry).layouts
        for layout in states[:: max(1, len(states) // 120)]:
            for instance in layout.instances:
                nvml.create(gpu.uuid, instance)
            now = next(g for g in nvml.read() if g.uuid == gpu.uuid)
            assert now.layout == layout
            assert all(record.whole for record in now.instances)
            for record in now.instances:
                nvml.destroy(gpu.uuid, record)
    assert fleet.seen() == ()


@pytest.mark.parametrize("kind", [0, GRAPHICS, MPS])
def test_processes_of_every_kind_are_seen(fleet: FakeFleet, kind: int) -> None:
    fleet.fill(0, [("3g.20gb", 4), ("1g.5gb", 0)])
    fleet.start_process(0, 4, 4711, kind)
    with Nvml() as nvml:
        (gpu,) = nvml.read()
        busy = gpu.find(GpuInstance(4, "3g.20gb"))
        idle = gpu.find(GpuInstance(0, "1g.5gb"))
        assert busy is not None
        assert idle is not None
        assert busy.pids == nvml.pids(gpu.uuid, busy) == (4711,)
        assert idle.pids == nvml.pids(gpu.uuid, idle) == ()
    state = gpu.state()
    assert state is not None
    assert str(state.busy) == "3g.20gb@4"


def test_the_driver_itself_refuses_to_destroy_what_runs(fleet: FakeFleet) -> None:
    fleet.fill(0, [("3g.20gb", 4)])
    fleet.start_process(0, 4, 1)
    look = fleet.layout()
    with Nvml() as nvml:
        (gpu,) = nvml.read()
        with pytest.raises(NvmlFailure, match="In use"):
            nvml.destroy(gpu.uuid, gpu.instances[0])
    assert fleet.layout() == look


def test_an_instance_that_was_replaced_is_not_destroyed(fleet: FakeFleet) -> None:
    """Instance numbers are used again: the place and the profile must fit as well."""
    fleet.fill(0, [("1g.5gb", 0)])
    with Nvml() as nvml:
        (before,) = nvml.read()
        nvml.destroy(before.uuid, before.instances[0])
        fleet.fill(0, [("1g.5gb", 3)])
        with pytest.raises(NvmlFailure, match="another one by now"):
            nvml.destroy(before.uuid, before.instances[0])
    assert [s.start for s in fleet.seen()] == [3]


def test_mig_off_and_gpus_that_cannot_are_told_apart(fleet: FakeFleet) -> None:
    fleet.reset("a100-40", "v100", mig=False)
    with Nvml() as nvml:
        a100, v100 = nvml.read()
    assert (a100.capable, a100.enabled, a100.geometry) == (True, False, None)
    assert (v100.capable, v100.enabled, v100.state()) == (False, False, None)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("nvmlInitWithFlags:1:fail:9", "driver does not answer"),
        ("nvmlInitWithFlags:1:fail:18", "driver does not answer"),
        ("nvmlDeviceGetGpuInstanceProfileInfoV:1:fail:13", "older than R525"),
        ("nvmlDeviceGetCount_v2:1:fail:999", "NVML refused nvmlDeviceGetCount"),
        ("nvmlDeviceGetGpuInstances:2:fail:4", "privileged user"),
        ("nvmlDeviceGetUUID:1:fail:15", "driver does not answer"),
    ],
)
def test_a_driver_that_refuses_is_one_sentence(fleet: FakeFleet, faults: str, message: str) -> None:
    fleet.faults(faults)
    with pytest.raises(BerthError, match=message) as caught, Nvml() as nvml:
        nvml.read()
    assert "\n" not in caught.value.message


def test_a_machine_without_gpus_and_one_without_the_library(
    fleet: FakeFleet, tmp_path: Path
) -> None:
    fleet.reset()
    with Nvml() as nvml, pytest.raises(BerthError, match="sees no GPU"):
        nvml.read()
    try:
        ctypes.CDLL("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
    except OSError:
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        done = subprocess.run(
            [sys.executable, "-c", READ], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert "libnvidia-ml.so.1" in done.stderr
        assert "ToolMissing" in done.stderr


def test_on_a_real_gpu_the_reading_agrees_with_itself() -> None:
    """Read-only; the MIG mode and the instances of a real GPU are never changed by a test."""
    environment = {
        k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")
    }
    done = subprocess.run(
        [sys.executable, "-c", READ], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"NO REAL GPU HERE: {done.stderr.strip().splitlines()[-1][:120]}")
    assert int(done.stdout) > 0
