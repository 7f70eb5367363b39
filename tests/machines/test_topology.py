"""Cores, sockets and caches of machines whose sysfs tells them in different ways."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.host import Cache, Topology, topology

KIB = 1024
MIB = 1024 * KIB
Level = tuple[int, str, str, int]
"""(level, kind, size, mask of the processors that share it) of a cache."""


def write_cpu(sysfs: Path, cpu: int, caches: tuple[Level, ...], **topology_files: object) -> None:
    folder = sysfs / f"cpu{cpu}"
    files = {f"topology/{name}": value for name, value in topology_files.items()}
    for number, (level, kind, size, mask) in enumerate(caches):
        values = {"level": level, "type": kind, "size": size, "shared_cpu_map": f"0,{mask:08x}"}
        files |= {f"cache/index{number}/{key}": value for key, value in values.items() if value}
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{value}\n")


def seen(machine: Topology) -> tuple[int, int | None, tuple[Cache, ...]]:
    return machine.cores, machine.sockets, machine.caches


def test_kernels_that_write_only_bit_masks_of_caches(tmp_path: Path) -> None:
    for cpu in range(8):  # POWER9 under Linux 4.18
        core = 0xF << 4 * (cpu // 4)
        caches = ((1, "Data", "32K", core), (1, "Instruction", "32K", core),
                  (2, "Unified", "512K", 0xFF), (3, "Unified", "10240K", 0xFF))  # fmt: skip
        first = cpu // 4 * 4
        write_cpu(tmp_path, cpu, caches, thread_siblings_list=f"{first}-{first + 3}")
    caches = (Cache(1, 32 * KIB, 2), Cache(2, 512 * KIB, 1), Cache(3, 10 * MIB, 1))
    assert seen(topology(range(8), sysfs=tmp_path)) == (2, None, caches)
    assert topology([0, 1], sysfs=tmp_path).cores == 1


def test_a_processor_of_two_kinds_of_core_has_the_capacity_of_all_its_caches(
    tmp_path: Path,
) -> None:
    for cpu in range(8):  # two fast cores of two threads, four slow ones that share an L2
        fast = cpu < 4
        core = 3 << (cpu & ~1) if fast else 1 << cpu
        cluster = core if fast else 0xF0
        caches = ((1, "Data", "48K" if fast else "32K", core),
                  (2, "Unified", "1280K" if fast else "2M", cluster),
                  (3, "Unified", "12M", 0xFF))  # fmt: skip
        numbers = {"core_id": cpu // 2 if fast else cpu, "physical_package_id": 0}
        write_cpu(tmp_path, cpu, caches, thread_siblings=f"{core:x}", core_siblings="ff", **numbers)
    cores, sockets, caches = seen(topology(range(8), sysfs=tmp_path))
    assert (cores, sockets) == (6, 1)
    assert [cache.instances for cache in caches] == [6, 3, 1]
    assert [round(cache.total_bytes / KIB) for cache in caches] == [224, 4608, 12288]


def test_processors_that_are_offline_are_left_out(tmp_path: Path) -> None:
    for cpu in range(4):
        write_cpu(tmp_path, cpu, ((1, "Data", "32K", 1 << cpu),), thread_siblings=1 << cpu,
                  core_siblings="3", physical_package_id=0)  # fmt: skip
    for cpu in (2, 3):
        (tmp_path / f"cpu{cpu}" / "online").write_text("0\n")
    assert seen(topology(range(4), sysfs=tmp_path)) == (2, 1, (Cache(1, 32 * KIB, 2),))


def test_two_cores_of_a_module_are_two_cores(tmp_path: Path) -> None:
    for cpu in range(4):  # AMD Bulldozer
        caches = ((1, "Data", "16K", 1 << cpu), (2, "Unified", "2M", 3 << (cpu & ~1)))
        write_cpu(tmp_path, cpu, caches, thread_siblings=f"{3 << (cpu & ~1):x}", core_id=cpu)
    assert seen(topology(range(4), sysfs=tmp_path)) == (
        4, None, (Cache(1, 16 * KIB, 4), Cache(2, 2 * MIB, 2)),
    )  # fmt: skip


def test_what_firmware_says_in_two_ways_is_unknown(tmp_path: Path) -> None:
    for cpu in range(4):  # clusters called sockets share a last cache; L2 groups overlap
        caches = ((1, "Data", "32K", 1 << cpu), (2, "Unified", "1M", 7 if cpu else 3),
                  (3, "Unified", "", 0xF))  # fmt: skip
        write_cpu(tmp_path, cpu, caches, thread_siblings=1 << cpu, core_id=0,
                  core_siblings=f"{3 << (cpu & ~1):x}", physical_package_id=cpu // 2)  # fmt: skip
    assert seen(topology(range(4), sysfs=tmp_path)) == (4, None, (Cache(1, 32 * KIB, 4),))


def test_unreadable_files_take_processors_for_cores(tmp_path: Path) -> None:
    write_cpu(tmp_path, 0, ((1, "Data", "much", 1),), thread_siblings="garbage")
    assert seen(topology([0, 1, 2], sysfs=tmp_path)) == (3, None, ())
