"""Compare names and topology with what hwloc, lscpu and archspec say of other people's machines.

    python tests/machines/snapshots.py [--hwloc SOURCE] [--lscpu SOURCE]

SOURCE is the unpacked source of hwloc or util-linux, whose tests hold snapshots of sysfs and
/proc; with neither, Debian's source packages of both are downloaded by apt-get into a folder that
is removed afterwards. archspec's targets come with its Python package. A row is right, unknown
(what is told is right, something is not told) or wrong. Exit status 1: a row is wrong.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from archspec.cpu import TARGETS, schema

from berth.pilot.host import topology
from berth.pilot.processor_name import processor_name
from berth.pilot.units import parse_bytes
from berth.predictor.hardware.processor import core_named

PACKAGES = {"hwloc": "hwloc", "lscpu": "util-linux"}
"""Debian's source package of each tool."""
UNKNOWN_NAMES = re.compile(r"^$|\bpart 0x|machine \d")
NEEDED = re.compile(
    r"/proc/cpuinfo$|/sys/devices/system/cpu/cpu\d+/(online|topology/(core_id|physical_package_id"
    r"|(thread|core)_siblings(_list)?)|cache/index\d/(level|type|size|shared_cpu_(map|list)))$"
)
NAMES = {"Package": "sockets", "Core": "cores"}
"""Berth's words for hwloc's."""
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
        if (ours := told.get(key)) is None:
            unknown.append(key)
        elif abs(ours / value - 1) > 0.02:  # sizes are printed in whole KiB or MiB
            wrong.append(f"{key} {ours}, not {value}")
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
    for output in sorted(folder.glob("*.output")):  # before hwloc 3
        tests[f"{output.stem}.tar.bz2"] = [(0, output)]
    for test in sorted(folder.glob("*.test")):
        lines = dict(re.findall(r"^(\w+): *(.*)$", test.read_text(), re.MULTILINE))
        reduced = sum(word in lines.get("options", "") for word in ("filter", "merge", "no-caches"))
        tests.setdefault(lines["source"], []).append((reduced, folder / lines["target"]))
    for archive, targets in sorted(tests.items()):
        if not (folder / archive).is_file():
            continue  # an expectation for another test's archive
        _, target = min(targets)
        if target.suffix == ".xml":
            objects = _hwloc_xml(ElementTree.parse(target).getroot())  # noqa: S314 - hwloc's own
        else:
            objects = _hwloc_console(target)
        with tempfile.TemporaryDirectory() as into:
            yield archive, *judged(unpacked(folder / archive, Path(into)), _hwloc(objects))


_OBJECT = re.compile(r"^( *)(Package|Core|PU|L\dd?Cache) L#\d+ ?(?:\((.*)\))?$", re.MULTILINE)
Object = tuple[int, str, int, str]
"""(depth, type, number in the system or size in bytes, model name) of one of hwloc's objects."""


def _hwloc_console(target: Path) -> Iterator[Object]:
    for indent, kind, details in _OBJECT.findall(target.read_text()):
        value = re.search(r"size=(\d+\w)" if "Cache" in kind else r"P#(\d+)", details)
        name = re.search(r'CPUModel="([^"]*)"', details)
        number = int(parse_bytes(value[1])) if value else 0
        yield len(indent), kind, number, name[1] if name else ""


def _hwloc_xml(element: ElementTree.Element, depth: int = 0) -> Iterator[Object]:
    for child in element.findall("object"):
        name = child.find("info[@name='CPUModel']")
        value = int(child.get("cache_size") or child.get("os_index") or 0)
        yield depth, child.get("type", ""), value, "" if name is None else name.get("value", "")
        yield from _hwloc_xml(child, depth + 1)


def _hwloc(objects: Iterable[Object]) -> Expected:
    expected = Expected()
    parents: list[tuple[int, str, int]] = []  # that no processor in use was seen in so far
    for depth, kind, value, name in objects:
        expected.names |= {name} - {""}
        parents = [*(parent for parent in parents if parent[0] < depth), (depth, kind, value)]
        if kind == "PU":
            for _, parent, size in parents:
                if cache := re.fullmatch(r"L(\d)d?Cache", parent):
                    expected.add(f"L{cache[1]}", 1)
                    expected.add(f"L{cache[1]} bytes", size)
                elif parent in NAMES:
                    expected.add(NAMES[parent], 1)
            expected.cpus.add(value)
            parents = []
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
        cells = (line.split(",") for line in table.splitlines()[1:] if line[:1].isdigit())
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
    """Return the sources of hwloc and util-linux as Debian has them, downloaded into a folder.

    Raises OSError where this is no Debian, CalledProcessError where apt-get fails.
    """
    lists = into / "lists" / "partial"
    lists.mkdir(parents=True)
    debian = into / "debian.sources"
    own = Path("/etc/apt/sources.list.d/debian.sources").read_text()
    debian.write_text(re.sub("^Types: .*", "Types: deb-src", own, flags=re.MULTILINE))
    settings = {"Dir::Etc::SourceList": debian, "Dir::Etc::SourceParts": "-",
                "Dir::State::Lists": lists.parent, "APT::Sandbox::User": "root"}  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "source", "--download-only", *PACKAGES.values()], check=True, cwd=into)
    sources = {}
    for name, package in PACKAGES.items():
        [archive] = into.glob(f"{package}_*.orig.tar.*[!c]")
        with tarfile.open(archive) as tar:
            tests = re.compile("/tests/(hwloc/linux|ts/lscpu|expected/lscpu)/")
            tar.extractall(into / name, [m for m in tar if tests.search(m.name)], filter="data")
        sources[name] = next((into / name).iterdir())
    return sources


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hwloc", type=Path, help="unpacked source of hwloc")
    parser.add_argument("--lscpu", type=Path, help="unpacked source of util-linux")
    options = parser.parse_args(arguments)
    sources = {"hwloc": options.hwloc, "lscpu": options.lscpu}
    wrong = print_rows("archspec", archspec_rows())
    with tempfile.TemporaryDirectory() as into:
        if not any(sources.values()):
            try:
                sources = fetched(Path(into))
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"hwloc, lscpu: not checked, their sources cannot be downloaded: {error}")
        for name, rows in (("hwloc", hwloc_rows), ("lscpu", lscpu_rows)):
            if (source := sources[name]) is not None:
                wrong += print_rows(name, rows(source))
    return 1 if wrong else 0


def print_rows(source: str, rows: Iterable[tuple[str, str, str]]) -> int:
    """Print the rows of one source and their number by verdict; return how many are wrong."""
    verdicts: Counter[str] = Counter()
    for snapshot, judgement, details in rows:
        verdicts[judgement] += 1
        print(f"{source:9}{snapshot:48}{judgement:9}{details}".rstrip(), flush=True)
    print(source, ", ".join(f"{count} {each}" for each, count in verdicts.items()), flush=True)
    return verdicts["wrong"]


if __name__ == "__main__":
    sys.exit(main())
