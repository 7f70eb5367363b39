"""Build the reference kernels with the local C compiler, once, into a cache folder.

The folder of a build is named by a hash of its sources, compiler and instruction set. It is created
under a temporary name and renamed when complete, so that a build is never incomplete, even if two
processes build at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path

from berth.pilot.errors import PilotError, ToolMissing

SERIAL_NAME = "berth-kernels"
OPENMP_NAME = "berth-kernels-omp"
_MANIFEST = "build.json"
TIMEOUT_S = 1200
"""Of a compiler or a check that hangs; both take seconds on an idle machine."""

_INSTALL_HINT = (
    "install one (Debian, Ubuntu: apt install gcc libc6-dev; Red Hat, SUSE: dnf or zypper "
    "install gcc glibc-devel), or name yours in the variable CC"
)
# What x86-64-v3 adds over x86-64. The emulated CPU of the counting tools ends there too.
_V3_FEATURES = frozenset({"avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"})
# haswell names the same level to compilers that are too old to know it as x86-64-v3.
_V3_FLAGS = ("-march=x86-64-v3", "-march=haswell")
COMMON_FLAGS = ("-std=c11", "-O3", "-ffast-math", "-fno-math-errno")


@dataclass(frozen=True)
class Build:
    """A build of the reference kernels: its folder, and the compiler that made the binaries."""

    folder: Path
    compiler: str
    """First line of the compiler's version output."""
    flags: tuple[str, ...]
    openmp_problem: str | None
    """Why the OpenMP binary could not be built; None if it was built."""
    wrong: tuple[str, ...] = ()
    """Kernels whose results, as built here, are not those of their references."""

    @property
    def serial(self) -> Path:
        """Return the path of the binary that runs on one thread."""
        return self.folder / SERIAL_NAME

    @property
    def openmp(self) -> Path | None:
        """Return the path of the OpenMP binary; None if the compiler could not build it."""
        return None if self.openmp_problem else self.folder / OPENMP_NAME


def find_compiler() -> list[str]:
    """Return the C compiler's command: ``$CC``, else cc, gcc or clang.

    Raises ToolMissing where none is installed.
    """
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        path = shutil.which(named[0])
        if path is None:
            raise ToolMissing(
                f"the C compiler {named[0]!r}, named by CC,",
                needed_for="the reference kernels",
                hint="correct or unset CC, or " + _INSTALL_HINT,
            )
        return [path, *named[1:]]
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path is not None:
            return [path]
    raise ToolMissing("a C compiler", needed_for="the reference kernels", hint=_INSTALL_HINT)


def cache_folder() -> Path:
    """Return Berth's cache folder.

    It is ``$BERTH_CACHE``, else ``$XDG_CACHE_HOME/berth``, else ``~/.cache/berth``.
    """
    chosen = os.environ.get("BERTH_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "berth"


def build(*, sources: Path | None = None, cache: Path | None = None) -> Build:
    """Return the binaries of the reference kernels; build them unless they are in the cache.

    Building takes some seconds. Raises ToolMissing without a compiler, and PilotError where the
    compiler fails or the cache cannot be written.
    """
    sources = sources or _packaged_sources()
    cache = cache or cache_folder()
    command = find_compiler()
    identity = _identity(command)
    folder = cache / f"kernels-{_digest(sources, command, identity)}"
    existing = _read(folder)
    if existing is not None:
        return existing
    with folder_to_build_in(cache, "the reference kernels") as temporary:
        return _build_into(temporary, folder, sources, command, identity)


@contextmanager
def folder_to_build_in(cache: Path, product: str) -> Iterator[Path]:
    """Yield a temporary folder in ``cache``, which is removed afterwards unless it was renamed.

    Raises PilotError, which names ``product``, where the cache cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix="building-", dir=cache))
    except OSError as error:
        raise PilotError(
            f"{product} cannot be built in {cache}: {error.strerror}",
            hint="name a folder that you may write in the variable BERTH_CACHE",
        ) from None
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _packaged_sources() -> Path:
    folder = Path(str(resources.files("berth.pilot"))) / "kernels"
    if not (folder / "main.c").is_file():
        raise PilotError(
            f"the reference kernels' sources are not in {folder}", hint="reinstall berth"
        )
    return folder


def _identity(command: list[str]) -> str:
    """Return the compiler's version output, which distinguishes versions with the same name."""
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PilotError(
            f"the C compiler {shlex.join(command)!r} does not work: {error}", hint=_INSTALL_HINT
        ) from error
    lines = answer.stdout.strip().splitlines()
    return lines[0] if lines else "unknown compiler"


def _has_v3() -> bool:
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    line = next((x for x in text.splitlines() if x.startswith("flags")), "")
    return set(line.split()) >= _V3_FEATURES


def _digest(sources: Path, command: list[str], identity: str) -> str:
    digest = hashlib.sha256()
    for part in (*command, identity, *COMMON_FLAGS, platform.machine(), str(_has_v3())):
        digest.update(part.encode() + b"\0")
    for path in sorted([*sources.glob("*.c"), *sources.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _read(folder: Path) -> Build | None:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        build = Build(
            folder, manifest["compiler"], tuple(manifest["flags"]), manifest["openmp_problem"],
            tuple(manifest["wrong"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
    complete = build.serial.is_file() and (build.openmp is None or build.openmp.is_file())
    return build if complete else None


def _build_into(
    temporary: Path, folder: Path, sources: Path, command: list[str], identity: str
) -> Build:
    flags = [*COMMON_FLAGS, *_instruction_set(command)]
    openmp = _start(command, [*flags, "-fopenmp"], sources, temporary / OPENMP_NAME)
    serial = _start(command, flags, sources, temporary / SERIAL_NAME)
    openmp_problem = _outcome(openmp)
    problem = _outcome(serial)
    wrong: set[str] = set()
    if not problem:
        problem = _check(temporary / SERIAL_NAME, wrong)
    if not problem and not openmp_problem:
        openmp_problem = _check(temporary / OPENMP_NAME, wrong)
    if problem:
        missing_headers = "No such file" in problem or "not found" in problem
        raise PilotError(
            f"{shlex.join(command)} cannot build the reference kernels: {problem}",
            hint=_INSTALL_HINT if missing_headers else "try another compiler in the variable CC",
        )
    unplaced = Build(temporary, identity, tuple(flags), openmp_problem, tuple(sorted(wrong)))
    manifest = {k: v for k, v in asdict(unplaced).items() if k != "folder"}
    (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    temporary.chmod(0o755)
    try:
        temporary.rename(folder)
    except OSError as error:
        other = _read(folder)  # another process was faster
        if other is not None:
            return other
        raise PilotError(
            f"the reference kernels cannot be put into {folder}: {error.strerror}",
            hint="remove that folder and try again",
        ) from error
    return replace(unplaced, folder=folder)


def _instruction_set(command: list[str]) -> list[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    if _has_v3():
        for flag in _V3_FLAGS:
            probe = subprocess.run(
                [*command, flag, "-E", "-x", "c", "-"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
            if probe.returncode == 0:
                return [flag]
    return ["-march=x86-64"]


def _start(
    command: list[str], flags: list[str], sources: Path, target: Path
) -> subprocess.Popen[str]:
    files = sorted(str(path) for path in sources.glob("*.c"))
    return subprocess.Popen(
        [*command, *flags, *files, "-o", str(target), "-lm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _outcome(compiling: subprocess.Popen[str]) -> str | None:
    """Return why building a binary failed, or None."""
    with compiling:
        try:
            _, errors = compiling.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            compiling.kill()
            return f"took longer than {TIMEOUT_S} s"
    if compiling.returncode == 0:
        return None
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [f"exit status {compiling.returncode}"])[0]


def _check(binary: Path, wrong: set[str]) -> str | None:
    """Add the kernels that are wrong to ``wrong``; return why none can be used, or None."""
    # Few threads that sleep while waiting: the machine may be busy or have very many cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"}
    environment["TMPDIR"] = str(binary.parent)  # the kernels of files make theirs there
    try:
        done = subprocess.run(
            [str(binary), "check"], capture_output=True, text=True, timeout=TIMEOUT_S,
            check=False, env=environment,
        )  # fmt: skip
        answer = json.loads(done.stdout)
        passed, failed = answer["passed"], answer["wrong"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        return f"what it built does not run its own check ({error})"
    if not passed:
        return f"what it built does not pass its own check ({done.stderr.splitlines()[0]})"
    wrong.update(failed)
    return None
