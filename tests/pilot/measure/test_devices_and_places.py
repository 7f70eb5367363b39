"""GPUs through a stand-in for NVML, control groups as folders, ELF files, launchers, containers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors.cgroup import CgroupCollector, parse_pairs
from berth.pilot.collectors.nvml import NvmlCollector
from berth.pilot.collectors.proc import page_table_levels
from berth.pilot.control_groups import own_group, quota_share, withheld_s
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.needs import read_elf
from berth.pilot.profile import Target
from berth.pilot.runs_on import Overrides, container_of, detect, ranks_of
from berth.plugin.cli.pilot.bench import gpus_here

Program = Callable[[str], str]


class FakeNvml:
    """Two GPUs; process 42 computes on the second one, which cannot tell its PCIe traffic."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, broken: bool = False, gpus: int = 2) -> None:
        self._broken = broken
        self._gpus = gpus
        self._energy = 1_000

    def nvmlInit(self) -> None:  # noqa: N802
        if self._broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self._gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> bytes | str:  # noqa: N802
        return (b"NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA Z1")[handle]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: N802
        self._energy += 500
        return self._energy

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=42, usedGpuMemory=2**30)] if handle == 1 else []

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=80)

    def nvmlDeviceGetPcieThroughput(self, handle: int, which: int) -> int:  # noqa: N802
        raise self.NVMLError("Not Supported")


@pytest.fixture(scope="module")
def outcome() -> ProcessResult:
    return run_one(Order(("/bin/true",), dict(os.environ)))


def test_the_gpus_of_the_programs_processes_are_measured(outcome: ProcessResult) -> None:
    nvml = NvmlCollector(library=FakeNvml(), family_of=lambda _: [41, 42])
    assert nvml.probe() is None
    nvml.prepare(Order(("true",), {}))
    nvml.watch(1)
    nvml.watch(1)
    counters = nvml.finish(outcome).counters
    assert nvml.gpus_used == {1}
    assert counters["gpu_memory_bytes"].value == 2**30
    assert counters["gpu_utilisation"].value == pytest.approx(0.8)
    assert (counters["gpu_energy_j"].value or 0) > 0
    assert "host_to_device_bytes_per_s" not in counters


def test_the_benchmark_names_the_platforms_of_the_gpus() -> None:
    assert gpus_here(NvmlCollector(library=FakeNvml(gpus=3))) == [
        "GPU NVIDIA H100 80GB HBM3: platform h100-80gb",
        "GPU NVIDIA L40S: no shipped platform; its data sheet: l40s-48gb",
        "GPU NVIDIA Z1: no shipped platform; its data sheet: not known",
    ]
    assert gpus_here(NvmlCollector(library=FakeNvml(broken=True))) == []


def test_gpus_that_others_use_are_not_counted(outcome: ProcessResult) -> None:
    nvml = NvmlCollector(library=FakeNvml(), family_of=lambda _: [7])
    nvml.probe()
    nvml.watch(1)
    assert nvml.finish(outcome).counters == {}


@pytest.mark.parametrize(
    ("library", "why"),
    [(FakeNvml(broken=True), "Driver Not Loaded"), (FakeNvml(gpus=0), "sees no GPU")],
)
def test_nvml_without_gpus_says_why(library: FakeNvml, why: str) -> None:
    assert why in (NvmlCollector(library=library).probe() or "")


def test_a_missing_nvml_module_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "not installed" in (NvmlCollector().probe() or "")


def test_a_control_group_is_made_read_and_removed(tmp_path: Path, outcome: ProcessResult) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu io memory\n")
    group = CgroupCollector(parent=tmp_path)
    assert group.probe() is None
    prepared = group.prepare(Order(("true",), {}))
    [folder] = map(Path, prepared.groups)
    assert folder.parent == tmp_path
    (folder / "io.stat").write_text("8:0 rbytes=100 wbytes=5 rios=1\n8:16 rbytes=50 wbytes=0\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    counters = group.finish(outcome).counters
    assert counters["storage_bytes_read"].value == 150
    assert counters["cpu_time_s"].value == 2.5


def test_the_program_is_put_into_its_group(tmp_path: Path) -> None:
    order = Order(("/bin/true",), dict(os.environ), groups=(str(tmp_path),))
    assert run_one(order).exit_code == 0
    assert (tmp_path / "cgroup.procs").read_text() == "0"


@pytest.mark.parametrize(
    ("controllers", "why"), [("cpu io\n", "not delegated"), ("", "not delegated")]
)
def test_a_group_without_delegation_says_so(tmp_path: Path, controllers: str, why: str) -> None:
    (tmp_path / "cgroup.subtree_control").write_text(controllers)
    assert why in (CgroupCollector(parent=tmp_path).probe() or "")


MOUNTS = (
    "32 31 0:29 {root} /groups/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "29 23 0:26 {root} /groups/all rw - cgroup2 cgroup2 rw\n"
)


@pytest.mark.parametrize(
    ("controller", "root", "folder"),
    [
        ("", "/", "/groups/all/user.slice/s.scope"),
        ("cpu", "/", "/groups/cpu/old/job_1"),
        ("", "/user.slice/s.scope", "/groups/all"),  # in a container
        ("cpu", "/elsewhere", "/groups/cpu"),
        ("memory", "/", None),
    ],
)
def test_the_own_group_is_found_in_proc(
    tmp_path: Path, controller: str, root: str, folder: str | None
) -> None:
    (tmp_path / "cgroup").write_text("4:cpu,cpuacct:/old/job_1\n0::/user.slice/s.scope\n")
    (tmp_path / "mounts").write_text(MOUNTS.format(root=root))
    found = own_group(controller, tmp_path / "cgroup", tmp_path / "mounts")
    assert found == (None if folder is None else Path(folder))
    assert own_group(controller, tmp_path / "none", tmp_path / "mounts") is None


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "150000 100000"}, 0.75),
        ({"cpu.max": "max 100000"}, 1),
        ({"cpu.max": "400000 100000"}, 1),
        ({"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.25),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu.max": "?"}, 1),
        ({}, 1),
    ],
)
def test_the_share_of_two_cores_is_that_of_the_quotas(
    tmp_path: Path, files: dict[str, str], share: float
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota_share(2, [tmp_path / "inner", tmp_path]) == share


@pytest.mark.parametrize("text", ["throttled_usec 1500000", "nr 3\nthrottled_time 1500000000"])
def test_time_that_a_quota_withheld_is_read_from_the_groups(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpu.stat.local").write_text(text + "\n")
    assert withheld_s([tmp_path / "inner", tmp_path]) == pytest.approx(1.5)
    assert withheld_s([tmp_path / "inner"]) == 0.0


@given(st.text(max_size=200))
def test_group_files_of_any_content_are_read(text: str) -> None:
    assert all(value >= 0 for value in parse_pairs(text).values())


@pytest.mark.parametrize(
    ("flags", "levels"),
    [("flags : lm la57 avx", 5), ("flags : lm avx", 4), ("Features : fp", None)],
)
def test_levels_of_the_page_table(tmp_path: Path, flags: str, levels: int | None) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    assert page_table_levels(tmp_path / "cpuinfo") == levels


def test_an_elf_file_tells_its_machine_libraries_and_sections(program: Program) -> None:
    found = read_elf(Path(program("triad")))
    assert found is not None
    assert found.machine == os.uname().machine
    assert "libc.so.6" in found.needed
    assert ".text" in found.sections


@given(st.binary(max_size=400))
def test_a_broken_elf_file_is_none_and_never_raises(tail: bytes) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"berth-elf-{os.getpid()}"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + tail)
    try:
        found = read_elf(path)
        assert found is None or isinstance(found.machine, str)
    finally:
        path.unlink()


@given(st.lists(st.tuples(st.integers(4, 4000), st.integers(0, 255)), max_size=6))
def test_a_damaged_elf_file_never_raises(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]]
) -> None:
    whole = bytearray(Path(sys.executable).resolve().read_bytes())
    for place, value in damage:
        whole[place] = value
    path = tmp_path_factory.mktemp("elf") / "damaged"
    path.write_bytes(whole[:200_000])
    read_elf(path)


@pytest.mark.parametrize(
    ("library", "target"),
    [("/usr/lib/libcudart.so.12", Target.CUDA), ("/opt/rocm/lib/libamdhip64.so.6", Target.HIP)],
)
def test_gpu_libraries_add_a_target_and_a_word_of_doubt(
    outcome: ProcessResult, library: str, target: Target
) -> None:
    seen = replace(outcome, libraries=(library,))
    runs_on, warnings = detect(("/bin/true",), {}, seen, overrides=Overrides())
    assert runs_on.targets == (Target.CPU, target)
    assert any("--runs-on" in warning for warning in warnings)
    used, quiet = detect(("/bin/true",), {}, seen, gpus_used=1, overrides=Overrides())
    assert used.targets == (target,)
    assert (used.gpus, quiet) == (1, ())


def test_the_users_word_on_targets_is_final(outcome: ProcessResult) -> None:
    seen = replace(outcome, libraries=("/usr/lib/libcudart.so.12",))
    said = Overrides(targets=(Target.CUDA,))
    runs_on, warnings = detect(("/bin/true",), {}, seen, overrides=said)
    assert runs_on.targets == (Target.CUDA,)
    assert warnings == ()


def test_a_plain_program_runs_on_the_cpu(outcome: ProcessResult) -> None:
    runs_on, warnings = detect(("/bin/true",), {}, outcome, overrides=Overrides())
    assert runs_on.targets == (Target.CPU,)
    assert runs_on.architecture == os.uname().machine
    assert warnings == ()


@pytest.mark.parametrize(
    ("command", "env", "ranks"),
    [
        ("mpirun -np 4 ./app", {}, 4),
        ("env --chdir /tmp A=1 mpiexec -n 8 ./app", {}, 8),
        ("srun --ntasks=16 ./app", {}, 16),
        ("flux run -n 3 ./app", {}, 3),
        ("./app -n 4", {}, 1),
        ("./app", {"OMPI_COMM_WORLD_SIZE": "6"}, 6),
        ("./app", {"PMI_SIZE": "x"}, 1),
        ("mpirun -np", {}, 1),
    ],
)
def test_ranks_come_from_the_launcher_or_the_environment(
    command: str, env: dict[str, str], ranks: int
) -> None:
    assert ranks_of(command.split(), env) == ranks


@pytest.mark.parametrize(("command", "threads"), [("./app", 4), ("mpirun -n 2 ./app", 2)])
def test_launched_ranks_share_the_cores_that_were_busy(
    outcome: ProcessResult, command: str, threads: int
) -> None:
    runs_on, _ = detect(command.split(), {}, outcome, cores_used=4, overrides=Overrides())
    assert runs_on.threads == threads


@pytest.mark.parametrize(
    ("command", "image"),
    [
        ("apptainer exec --nv app.sif ./app", "app.sif"),
        ("singularity run docker://repo/app:1 x", "docker://repo/app:1"),
        ("podman run --rm repo/app:1 ./app", "repo/app:1"),
        ("srun --container-image=repo+app:1 ./app", "repo+app:1"),
        ("./app --x", None),
    ],
)
def test_container_images_are_named(command: str, image: str | None) -> None:
    assert container_of(command.split()) == image


def test_a_remote_launcher_is_warned_about(outcome: ProcessResult) -> None:
    _, warnings = detect(("/usr/bin/srun", "./app"), {}, outcome, overrides=Overrides())
    assert any("put the pilot inside" in warning for warning in warnings)
