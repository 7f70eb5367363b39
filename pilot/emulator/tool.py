"""Build Berth's valgrind tool with the installed valgrind, and read the counts that it writes.

A valgrind tool is a program linked with valgrind's own libraries, which valgrind's packages include
beside the headers (Debian and Ubuntu: ``valgrind``; Red Hat: ``valgrind-tools-devel``; Spack,
EasyBuild and ``make install``: always). Berth ships no binaries linked with them: each machine
builds the tool once, into the cache.

The tool writes totals, and the executions and code of each segment::

    l1_load_misses 71
    conditional 9102
    indirect 411
    object /usr/bin/app
    COUNT ADDRESS LOADS STORES LOAD_BYTES STORE_BYTES REGION LENGTHS CODE
    end

A segment is a sequence of instructions without an exit between them. Loads, stores and bytes are
those of one execution. REGION is 1 where a parallel region begins. LENGTHS has one hexadecimal
digit per instruction, CODE the instructions' bytes; both are ``-`` for a segment with accesses but
no start of an instruction.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from berth.pilot.errors import PilotError, ToolMissing
from berth.pilot.suite_build import TIMEOUT_S, cache_folder, find_compiler, folder_to_build_in

SOURCES = tuple(sorted(Path(__file__).parent.glob("*.c")))
HEADERS = tuple(sorted(Path(__file__).parent.glob("*.h")))
NAME = "berth"
TARGET = "amd64-linux"
FLAGS = (
    "-m64",
    "-O2",
    "-fno-strict-aliasing",
    "-fno-builtin",
    "-fomit-frame-pointer",
    "-fno-stack-protector",
    "-fno-pie",
    "-DVGA_amd64=1",
    "-DVGO_linux=1",
    "-DVGP_amd64_linux=1",
    "-DVGPV_amd64_linux_vanilla=1",
)
LINK = ("-m64", "-static", "-no-pie", "-nodefaultlibs", "-nostartfiles", "-u", "_start")
LOAD_ADDRESS = 0x58000000
"""Load address of valgrind's own tools, which keeps them apart from the programs they run."""


@dataclass(frozen=True, slots=True)
class Valgrind:
    """Paths of an installed valgrind's parts that are needed to build and run a tool."""

    program: Path
    headers: Path
    libraries: Path
    """Folder of ``libcoregrind`` and ``libvex``."""
    support: Path
    """Folder of valgrind's tools and preloaded libraries (``VALGRIND_LIB``)."""


def find_valgrind() -> Valgrind:
    """Return the installed valgrind with its headers and libraries.

    Raises ToolMissing that names a missing part.
    """
    command = shutil.which("valgrind")
    if command is None:
        raise ToolMissing("valgrind", needed_for="emulated counters", hint="install valgrind")
    program = Path(command).resolve()
    roots = [program.parents[1], Path(command).absolute().parents[1]]
    hint = "install valgrind's development files (Red Hat: valgrind-tools-devel)"
    headers = _holding("pub_tool_tooliface.h", _folders(roots, ("include",)))
    if headers is None:
        raise ToolMissing("valgrind's headers", needed_for="its counting tool", hint=hint)
    below = ("lib", "lib64", "libexec", f"lib/{platform.machine()}-linux-gnu")
    libraries = _holding(f"libcoregrind-{TARGET}.a", _folders(roots, below))
    if libraries is None:
        raise ToolMissing("valgrind's libraries", needed_for="its counting tool", hint=hint)
    named = os.environ.get("VALGRIND_LIB")
    places = [*([Path(named)] if named else []), *_folders(roots, ("libexec", *below))]
    support = _holding("default.supp", places)
    if support is None:
        raise ToolMissing("valgrind's default.supp", needed_for="its counting tool", hint=hint)
    return Valgrind(Path(command), headers, libraries, support)


def built(cache: Path | None = None) -> Path:
    """Return the folder to set ``VALGRIND_LIB`` to for ``--tool=berth``; build the tool if absent.

    Building takes some seconds. Raises ToolMissing, or PilotError where the build fails.
    """
    valgrind = find_valgrind()
    compiler = find_compiler()
    cache = cache or cache_folder()
    folder = cache / f"emulator-{_digest(valgrind, compiler)}"
    if (folder / f"{NAME}-{TARGET}").exists():
        return folder
    with folder_to_build_in(cache, "the counting tool") as temporary:
        _build(valgrind, compiler, temporary)
        try:
            temporary.rename(folder)
        except OSError:  # another process was faster
            if not (folder / f"{NAME}-{TARGET}").exists():
                raise PilotError(f"the counting tool cannot be put at {folder}") from None
    return folder


def _folders(roots: Sequence[Path], below: Sequence[str]) -> Iterator[Path]:
    for root in roots:
        for name in below:
            yield root / name / "valgrind"


def _holding(file: str, folders: Sequence[Path] | Iterator[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / file).is_file()), None)


def _digest(valgrind: Valgrind, compiler: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for source in (*SOURCES, *HEADERS):
        digest.update(source.read_bytes())
    core = valgrind.libraries / f"libcoregrind-{TARGET}.a"
    state = core.stat()
    for part in (*FLAGS, *compiler, str(core), state.st_size, state.st_mtime_ns):
        digest.update(f"{part}\0".encode())
    digest.update(str(valgrind.support).encode())
    return digest.hexdigest()[:16]


def _build(valgrind: Valgrind, compiler: Sequence[str], folder: Path) -> None:
    """Compile, link and test the tool. Raises PilotError with the compiler's first error."""
    headers = (f"-I{valgrind.headers}", f"-I{valgrind.headers / 'vki'}")
    objects = [folder / f"{source.stem}.o" for source in SOURCES]
    for source, target in zip(SOURCES, objects, strict=True):
        _run([*compiler, *FLAGS, *headers, "-c", str(source), "-o", str(target)])
    libraries = [
        str(path)
        for name in ("coregrind", "vex", "gcc-sup")
        if (path := valgrind.libraries / f"lib{name}-{TARGET}.a").is_file()
    ]
    tool = folder / f"{NAME}-{TARGET}"
    address = f"-Wl,-Ttext-segment={LOAD_ADDRESS:#x}"
    parts = [str(target) for target in objects]
    _run([*compiler, *LINK, address, "-o", str(tool), *parts, *libraries, "-lgcc"])
    for target in objects:
        target.unlink()
    for part in valgrind.support.iterdir():
        if not (folder / part.name).exists():
            (folder / part.name).symlink_to(part)
    counts = folder / "trial"
    _run(
        [str(valgrind.program), "-q", f"--tool={NAME}", f"--counts-file={counts}", "/bin/true"],
        env={**os.environ, "VALGRIND_LIB": str(folder)},
    )
    for part in folder.glob("trial*"):
        part.unlink()


def _run(command: Sequence[str], *, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PilotError(f"the counting tool cannot be built: {error}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        first = next(
            (line for line in lines if "error" in line), lines[0] if lines else "no output"
        )
        raise PilotError(f"the counting tool cannot be built: {first[:300]}")


TOTALS = frozenset(
    (
        *(f"{level}_{kind}_misses" for kind in ("load", "store") for level in ("l1", "l2", "llc")),
        "l1_instruction_misses",
        "conditional",
        "conditional_missed",
        "indirect",
        "indirect_missed",
        "taken",
    )
)
NAMED = re.compile(r"(\w+) (\d{1,19})", re.ASCII)
SEGMENT = re.compile(
    r"(\d{1,19}) ([0-9a-f]{1,16}) (\d{1,9}) (\d{1,9}) (\d{1,9}) (\d{1,9}) ([01]) ([0-9a-f]+|-) "
    r"((?:[0-9a-f][0-9a-f])+|-)",
    re.ASCII,
)


class Segment(NamedTuple):
    """A sequence of instructions without an exit between them."""

    first: int
    """Address of the first instruction in its object file."""
    lengths: str
    """Bytes of each instruction, a hexadecimal digit each."""
    code: str
    """Bytes of all instructions in hexadecimal."""

    def instructions(self) -> Iterator[tuple[int, bytes]]:
        """Yield the address and the bytes of each instruction."""
        code, at = bytes.fromhex(self.code), 0
        for digit in self.lengths:
            end = at + int(digit, 16)
            yield self.first + at, code[at:end]
            at = end


Segments = Mapping[str, Mapping[Segment, int]]
"""Number of executions by object file ("": code generated at run time) and segment."""


@dataclass(slots=True)
class EmulatedCounts:
    """The counts of Berth's valgrind tool, summed over all processes and files that were read."""

    totals: dict[str, int] = field(default_factory=dict)
    """Misses and branches, by the names in ``TOTALS``."""
    segments: dict[str, dict[Segment, int]] = field(default_factory=dict)
    load_bytes: int = 0
    store_bytes: int = 0
    loads: int = 0
    """Number of reads as valgrind counts them: it splits some vector operands."""
    stores: int = 0
    regions: int = 0
    cut: int = 0
    """Number of incomplete files, from processes that were killed."""

    @property
    def instructions(self) -> int:
        """Return the number of executed instructions."""
        return sum(self.instructions_of(name) for name in self.segments)

    def instructions_of(self, name: str) -> int:
        """Return the number of executed instructions of one object file."""
        segments = self.segments.get(name, {})
        return sum(times * len(segment.lengths) for segment, times in segments.items())


def read_counts(lines: Iterable[str], into: EmulatedCounts) -> None:
    """Add the counts in a file of Berth's valgrind tool to ``into``; unknown lines are skipped."""
    whole = False
    segments = into.segments.setdefault("", {})
    for line in lines:
        text = line.rstrip("\n")
        if text.startswith("object "):
            segments = into.segments.setdefault(text[len("object ") :], {})
        elif text == "end":
            whole = True
        elif (segment := SEGMENT.fullmatch(text)) is not None:
            _add(segment.groups(), segments, into)
        elif (named := NAMED.fullmatch(text)) is not None and named.group(1) in TOTALS:
            name = named.group(1)
            into.totals[name] = into.totals.get(name, 0) + int(named.group(2))
    into.cut += not whole


def counts_in(folder: Path) -> EmulatedCounts:
    """Return the sum of the counts in all files ``out.*`` of the tool in ``folder``."""
    counts = EmulatedCounts()
    for path in sorted(folder.glob("out.*")):
        with path.open(encoding="utf-8", errors="replace") as stream:
            read_counts(stream, counts)
    return counts


def _add(words: Sequence[str], segments: dict[Segment, int], into: EmulatedCounts) -> None:
    times = int(words[0])
    into.loads += times * int(words[2])
    into.stores += times * int(words[3])
    into.load_bytes += times * int(words[4])
    into.store_bytes += times * int(words[5])
    into.regions += times * int(words[6])
    if words[7] != "-" and words[8] != "-":
        segment = Segment(int(words[1], 16), words[7], words[8])
        segments[segment] = segments.get(segment, 0) + times
