"""Compare names and topology with what hwloc, lscpu and archspec say of other people's machines.

    python tests/machines/snapshots.py [--hwloc SOURCE] [--lscpu SOURCE] [--fetch]

SOURCE is the unpacked source of hwloc or util-linux, whose tests hold snapshots of sysfs and
/proc. --fetch downloads both as Debian's source packages (needs apt-get) into a folder that is
removed afterwards. archspec's targets come with its Python package. A row is right, unknown (what
is told is right, something is not told) or wrong. Exit status 1: a row is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from archspec.cpu import TARGETS, schema

from berth.pilot.host import topology
from berth.pilot.processor_name import processor_name
from berth.pilot.units import parse_bytes
from berth.predictor.hardware.processor import core_named

UNKNOWN_NAMES = re.compile(r"^$|\bpart 0x|machine \d")
NEEDED = re.compile(r"/proc/cpuinfo$|/sys/devices/system/cpu/cpu\d+(/(topology|cache)/.*|/online)$")
SAME_CORE = {
    "skylake_avx512": "skylake-server", "cascadelake": "skylake-server",
    "icelake": "ice-lake-server", "sapphirerapids": "golden-cove",
}  # fmt: skip
"""Berth's names of archspec's microarchitectures where they differ in more than hyphens."""


@dataclass
class Expected:
    """What a tool says of a machine; a value that it does not tell is absent."""

    counts: dict[str, int] = field(default_factory=dict)
    """Number of sockets, cores and data caches (``L2``), and bytes of all caches (``L2 bytes``)."""
    cpus: set[int] = field(default_factory=set)
    """Numbers of the logical processors in use."""
    names: set[str] = field(default_factory=set)

    def add(self, key: str, value: int) -> None:
        """Count ``value`` more of ``key``."""
        self.counts[key] = self.counts.get(key, 0) + value


def judged(root: Path, expected: Expected) -> tuple[str, str]:
    """Return the verdict on the snapshot in ``root``, and what is unknown or wrong."""
    sysfs = root / "sys/devices/system/cpu"
    listed = {int(path.name[3:]) for path in sysfs.glob("cpu[0-9]*")}
    offline = {
        n
        for n in listed
        if (sysfs / f"cpu{n}/online").is_file()
        and (sysfs / f"cpu{n}/online").read_text().strip() == "0"
    }
    ours = topology((expected.cpus & listed) | offline, sysfs=sysfs)
    told: dict[str, int | None] = {"sockets": ours.sockets, "cores": ours.cores}
    for cache in ours.caches:
        told[f"L{cache.level}"] = cache.instances
        told[f"L{cache.level} bytes"] = cache.total_bytes
    cpu_info = root / "proc/cpuinfo"
    lines = cpu_info.read_text(errors="replace").splitlines() if cpu_info.is_file() else []
    return verdict(told, expected, processor_name(lines))


def verdict(told: Mapping[str, int | None], expected: Expected, name: str) -> tuple[str, str]:
    """Return "right", "unknown" or "wrong", and the values that are not right."""
    wrong, unknown = [], []
    for key, value in expected.counts.items():
        if not value:
            continue
        if told.get(key) is None:
            unknown.append(key)
        elif abs(told[key] / value - 1) > 0.02:  # sizes are printed in whole KiB or MiB
            wrong.append(f"{key} {told[key]}, not {value}")
    if expected.names:
        same = {" ".join(each.split()) for each in expected.names}
        if UNKNOWN_NAMES.search(name):
            unknown.append("name")
        elif not any(each.startswith(name.partition(" (family")[0]) for each in same):
            wrong.append(f"name {name!r}, not {same}")
    if wrong:
        return "wrong", "; ".join(wrong)
    return ("unknown", ", ".join(unknown)) if unknown else ("right", "")


def unpacked(archive: Path, into: Path) -> Path:
    """Unpack what is needed of a snapshot and return its root folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(into, [m for m in tar if NEEDED.search(m.name)], filter="tar")
    return next(path.parent for path in sorted(into.glob("**/sys")) if path.is_dir())


def hwloc_rows(source: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (snapshot, verdict, details) of hwloc's snapshots that have an expectation."""
    folder = source / "tests/hwloc/linux"
    tests: dict[str, list[tuple[int, Path]]] = {}
    for test in sorted(folder.glob("*.test")):
        lines = dict(re.findall(r"^(\w+): *(.*)$", test.read_text(), re.MULTILINE))
        reduced = sum(word in lines.get("options", "") for word in ("filter", "merge", "no-caches"))
        tests.setdefault(lines["source"], []).append((reduced, folder / lines["target"]))
    for archive, targets in sorted(tests.items()):
        _, target = min(targets)
        objects = (_hwloc_xml if target.suffix == ".xml" else _hwloc_console)(target)
        with tempfile.TemporaryDirectory() as into:
            yield archive, *judged(unpacked(folder / archive, Path(into)), _hwloc(objects))


_OBJECT = re.compile(r"^ *(Package|Core|PU|L\dd?Cache) L#\d+ ?(?:\((.*)\))?$", re.MULTILINE)


def _hwloc_console(target: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (type, number in the system or size in bytes, model name) of each object in use."""
    for kind, details in _OBJECT.findall(target.read_text()):
        value = re.search(r"size=(\d+\w)" if "Cache" in kind else r"P#(\d+)", details)
        name = re.search(r'CPUModel="([^"]*)"', details)
        yield kind, int(parse_bytes(value[1])) if value else 0, name[1] if name else ""


def _hwloc_xml(target: Path) -> Iterator[tuple[str, int, str]]:
    """Yield the same of an XML file."""
    for thing in ElementTree.parse(target).iter("object"):  # noqa: S314 - hwloc's own file
        if set(thing.get("cpuset", "")) - set("0x,"):
            name = thing.find("info[@name='CPUModel']")
            value = int(thing.get("cache_size") or thing.get("os_index") or 0)
            yield thing.get("type", ""), value, "" if name is None else name.get("value", "")


def _hwloc(objects: Iterable[tuple[str, int, str]]) -> Expected:
    expected, empty_socket = Expected(), False
    for kind, value, name in objects:
        expected.names |= {name} - {""}
        if cache := re.fullmatch(r"L(\d)d?Cache", kind):
            expected.add(f"L{cache[1]}", 1)
            expected.add(f"L{cache[1]} bytes", value)
        elif kind == "Core":
            expected.add("cores", 1)
        elif kind == "Package":
            empty_socket = True
        elif kind == "PU":
            expected.cpus.add(value)
            expected.add("sockets", int(empty_socket))
            empty_socket = False
    return expected


def lscpu_rows(source: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (dump, verdict, details) of the dumps of util-linux' lscpu."""
    for archive in sorted((source / "tests/ts/lscpu/dumps").glob("*.tar.gz")):
        name = archive.name.removesuffix(".tar.gz")
        text = (source / "tests/expected/lscpu" / f"lscpu-{name}").read_text()
        with tempfile.TemporaryDirectory() as into:
            yield name, *judged(unpacked(archive, Path(into)), _lscpu(text))


def _lscpu(text: str) -> Expected:
    expected = Expected()
    header, *tables = text.split("# CPU,")  # logical and physical numbers
    for table in tables:
        columns = ["CPU", *table.splitlines()[0].split(",")]
        cells = (line.split(",") for line in table.split("\n\n")[0].splitlines()[1:])
        rows = [dict(zip(columns, row, strict=False)) for row in cells]
        expected.cpus = {int(row["CPU"]) for row in rows}
        for key, names in (("cores", ("Socket", "Core")), ("sockets", ("Socket",))):
            if all(row.get(names[-1]) for row in rows):
                count = len({tuple(row[name] for name in names) for row in rows})
                expected.counts[key] = max(count, expected.counts.get(key, 0))
    for level, size, count in re.findall(
        r"^L(\d)d? cache: +([\d.]+ \w+)(?: \((\d+) instances?\))?$", header, re.MULTILINE
    ):
        expected.counts[f"L{level} bytes"] = int(parse_bytes(size))
        if count:
            expected.counts[f"L{level}"] = int(count)
    if expected.counts.get("L1", 0) > expected.counts.get("cores", 0):
        del expected.counts[
            "cores"
        ]  # a module of AMD's Bulldozer: one core for lscpu, two for hwloc
    expected.names = set(re.findall(r"^Model name: +([^-\n].*)$", header, re.MULTILINE))
    return expected


def archspec_rows() -> Iterator[tuple[str, str, str]]:
    """Yield (target, verdict, details) of archspec's targets that are a Linux /proc/cpuinfo."""
    folder = Path(schema.__file__).parents[1] / "json/tests/targets"
    for path in sorted(folder.iterdir()):
        system, _, target = path.name.rpartition("-")
        if system.startswith(("darwin", "windows")) or TARGETS[target].vendor == "generic":
            continue
        name = processor_name(path.read_text(errors="replace").splitlines())
        core = core_named(name)
        wanted = SAME_CORE.get(target, target.removesuffix("le"))
        wanted, ours = (
            re.sub("[-_ ]", "", each.lower()) for each in (wanted, core.name if core else name)
        )
        if wanted == ours or (core is None and wanted in ours):
            yield path.name, "right", ""
        else:
            yield path.name, "wrong" if core else "unknown", f"{name!r}: {ours}"


def fetched(into: Path) -> dict[str, Path]:
    """Download and unpack the sources of hwloc and util-linux as Debian has them."""
    lists = into / "sources.list"
    lists.write_text("deb-src http://deb.debian.org/debian sid main\n")
    return {}


def main(arguments: Iterable[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hwloc", type=Path)
    parser.add_argument("--lscpu", type=Path)
    options = parser.parse_args(arguments)
    lists = {"archspec": archspec_rows()}
    if options.hwloc:
        lists["hwloc"] = hwloc_rows(options.hwloc)
    if options.lscpu:
        lists["lscpu"] = lscpu_rows(options.lscpu)
    status = 0
    for source, rows in lists.items():
        verdicts: Counter[str] = Counter()
        for snapshot, what, details in rows:
            verdicts[what] += 1
            print(f"{source:9}{snapshot:48}{what:9}{details}")
        print(f"{source:9}{sum(verdicts.values())} in all: {dict(verdicts)}")
        status |= bool(verdicts["wrong"])
    return status


if __name__ == "__main__":
    sys.exit(main())
