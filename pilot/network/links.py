"""Latency, bandwidth and all-reduce between two nodes, measured from a job on both.

By MPI where there is one to compile and to start with, else over TCP by a ring of our own; the
result says which, and why not MPI. One JSON file (``berth.link/1``).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field

from berth.pilot.documents import Document, write_json
from berth.pilot.errors import BerthError, PilotError, UsageError
from berth.pilot.node import kernel_release
from berth.pilot.platform import AllReduce, Interconnect
from berth.pilot.progress import Say, say_nothing
from berth.pilot.suite_build import find_compiler
from berth.pilot.units import format_seconds

LINK_SCHEMA = "berth.link/1"
MPI_SOURCE, TCP_SOURCE = "link_mpi.c", "link_tcp.c"
MOST_RANKS_A_NODE = 4
"""All-reduces are also measured with so many ranks on each node, where it has the cores."""
TIME_LIMIT_S = 120.0
"""Seconds that each program may take."""
FIRST_LIMIT_S = 45.0
"""Seconds for a first try with MPI: launchers that do not fit hang."""
_FLAGS = ("-std=c11", "-O2")
_COMPILE_S = 120.0
_GRACE_S = 3.0

Launch = Callable[[int, Sequence[str]], list[str]]
"""Turns ranks a node and a program into the command that starts it on both nodes."""


class LinkMeasurement(Document):
    """Measurements between two nodes of one kind."""

    schema_: str = Field(default=LINK_SCHEMA, alias="schema")
    nodes: tuple[str, ...] = Field(min_length=2, max_length=2)
    """The two nodes, as the scheduler calls them."""
    kernel: str = ""
    measured: str = ""
    """Time when it began."""
    interconnect: Interconnect | None = None
    without_mpi: str | None = None
    """The reason why it was not measured by MPI; None: it was."""
    problems: tuple[str, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to start the program on both nodes."""

    program: Path
    command: Launch
    fresh_folder: bool = False
    """Its ranks meet in a folder, which is new for each launch."""


def measure_link(
    into: Path,
    *,
    nodes: Sequence[str],
    launcher: Sequence[str],
    say: Say = say_nothing,
) -> LinkMeasurement:
    """Measure between ``nodes`` from a job that holds both, and write it to ``into``.

    ``launcher``: words that start a command on both nodes, with ``{ranks}`` and ``{each}`` for the
    number of ranks in all and on each. What cannot be measured is a problem in the result. Raises
    UsageError where the result cannot be written.
    """
    result = LinkMeasurement(
        nodes=tuple(nodes),
        kernel=kernel_release(),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        with _beside(into) as folder:
            interconnect, why = _measured(folder, launcher, say)
        named = interconnect.model_copy(update={"nodes": tuple(nodes)})
        result = result.model_copy(
            update={"interconnect": named, "without_mpi": why, "complete": True}
        )
    except BerthError as error:
        result = result.model_copy(update={"problems": (error.message,)})
    write_json(into, result)
    return result


@contextmanager
def _beside(into: Path) -> Iterator[Path]:
    """Make a folder that both nodes see, since they see the result's."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=".link-", dir=into.parent))
    except OSError as error:
        raise UsageError(f"{into.parent} cannot be written: {error.strerror}") from None
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(folder: Path, launcher: Sequence[str], say: Say) -> tuple[Interconnect, str | None]:
    """Return the interconnect, and why it was not measured by MPI."""
    tried: list[str] = []
    try:
        program = _compiled([_mpicc()], MPI_SOURCE, folder)
    except PilotError as error:
        tried.append(error.message)
    else:
        for name, command in _mpi_launchers(launcher):
            say(f"MPI by {name}")
            way = _Way(program, command)
            try:
                return _all_of_it(way, folder, say, first_s=FIRST_LIMIT_S), None
            except PilotError as error:
                tried.append(f"{name}: {error.message}")
    say("TCP")
    program = _compiled(find_compiler(), TCP_SOURCE, folder)
    way = _Way(program, _by(launcher), fresh_folder=True)
    return _all_of_it(way, folder, say, first_s=TIME_LIMIT_S), "; ".join(tried)[:1000]


def _mpicc() -> str:
    compiler = shutil.which("mpicc")
    if compiler is None:
        raise PilotError("there is no mpicc")
    return compiler


def _mpi_launchers(launcher: Sequence[str]) -> Iterator[tuple[str, Launch]]:
    mpirun = shutil.which("mpirun")
    if mpirun is not None:
        yield "mpirun", _mpirun(mpirun)
    yield launcher[0], _by(launcher)


def _mpirun(path: str) -> Launch:
    """Return the launch by this mpirun, in its own words for ranks a node."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
        text = done.stdout
    except (OSError, subprocess.SubprocessError):
        text = ""
    by_node = ("--map-by", "ppr:{each}:node") if "Open MPI" in text else ("-ppn", "{each}")
    return _by([path, "-np", "{ranks}", *by_node])


def _by(launcher: Sequence[str]) -> Launch:
    def command(each: int, program: Sequence[str]) -> list[str]:
        words = [w.format(ranks=2 * each, each=each) for w in launcher]
        return [*words, *program]

    return command


def _compiled(compiler: Sequence[str], source: str, folder: Path) -> Path:
    """Compile the program in a folder that both nodes see. Raises PilotError."""
    sources = Path(str(resources.files("berth.pilot"))) / "network"
    program = folder / source.removesuffix(".c")
    words = [*compiler, *_FLAGS, str(sources / source), "-o", str(program), "-lm"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_COMPILE_S, check=False, errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PilotError(f"{compiler[0]} does not work: {error}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if "error" in line.lower()]
        raise PilotError(f"{compiler[0]}: {(lines or ['it failed'])[0][:200]}")
    return program


def _all_of_it(way: _Way, folder: Path, say: Say, *, first_s: float) -> Interconnect:
    """Measure with one rank a node, and the all-reduce with several. Raises PilotError."""
    single = parsed(_run(way, 1, folder, first_s), ranks=2)
    each = min(MOST_RANKS_A_NODE, len(os.sched_getaffinity(0)))
    if each < 2:
        return single
    say(f"all-reduce with {each} ranks a node")
    try:
        more = parsed(_run(way, each, folder, TIME_LIMIT_S), ranks=2 * each)
    except PilotError:  # more ranks than the launcher allows on a node
        return single
    return single.model_copy(update={"all_reduce": (*single.all_reduce, *more.all_reduce)})


def _run(way: _Way, each: int, folder: Path, limit_s: float) -> str:
    program = [str(way.program), str(2 * each)]
    if way.fresh_folder:
        meeting = Path(tempfile.mkdtemp(prefix="meet-", dir=folder))
        meeting.chmod(0o777)
        program.append(str(meeting))
    status, out, err = _bounded(way.command(each, program), limit_s)
    if status != 0:
        lines = [line.strip() for line in err.splitlines() if line.strip()]
        telling = next((x for x in lines if "error" in x.lower() or "rank" in x), "")
        why = telling or (lines[-1] if lines else "it said nothing")
        raise PilotError(f"exit status {status}: {why[:200]}")
    return out


def _bounded(command: Sequence[str], limit_s: float) -> tuple[int, str, str]:
    """Run a command for at most ``limit_s``; return status and output. Raises PilotError."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=_environment(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        raise PilotError(f"{command[0]} could not be started: {error.strerror}") from None
    with process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=_GRACE_S)
            raise PilotError(f"nothing came within {limit_s:g} s") from None
    return process.returncode, out, err


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    environment = dict(env)
    if os.geteuid() == 0:  # whoever calibrates as root has chosen so
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return environment


def parsed(text: str, *, ranks: int) -> Interconnect:
    """Read what rank 0 printed. Raises PilotError for anything else."""
    line = next((x for x in text.splitlines() if x.startswith("{")), "")
    try:
        data: dict[str, Any] = json.loads(line)
        if data["ranks"] != ranks:
            raise PilotError(f"{data['ranks']} ranks were started, not {ranks}")
        library = str(data["library"])
        return Interconnect(
            latency_s=data.get("latency_s"),
            bytes_per_s=data.get("bytes_per_s"),
            all_reduce=tuple(
                AllReduce(ranks=ranks, message_bytes=size, seconds=seconds)
                for size, seconds in data["all_reduce"]
            ),
            measured_with=(library if library == "TCP" else f"MPI: {library}")[:200],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PilotError(f"it printed something unreadable: {error!r}"[:200]) from None


def in_words(interconnect: Interconnect) -> str:
    """Return ``2 us, 10 GB/s (MPI: Open MPI v4.1.4)``."""
    latency = "-" if interconnect.latency_s is None else format_seconds(interconnect.latency_s)
    rate = "-" if interconnect.bytes_per_s is None else f"{interconnect.bytes_per_s / 1e9:.3g} GB/s"
    return f"{latency}, {rate} ({interconnect.measured_with})"
