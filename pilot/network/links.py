"""Measure latency, bandwidth and all-reduce between two nodes, from a job on both.

MPI is used where an MPI program can be compiled and started, otherwise TCP with Berth's own ring
all-reduce. The result, a JSON file (``berth.link/1``), states which, and why MPI was not used.
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
from berth.pilot.suite_build import TIMEOUT_S, find_compiler
from berth.pilot.units import format_seconds

LINK_SCHEMA = "berth.link/1"
MPI_SOURCE, TCP_SOURCE = "link_mpi.c", "link_tcp.c"
MOST_RANKS_A_NODE = 4
"""Largest number of ranks per node in the second all-reduce measurement."""
TIME_LIMIT_S = 120.0
"""Time limit of each program in seconds."""
FIRST_LIMIT_S = 45.0
"""Time limit in seconds of the first run with an MPI launcher: unsuitable launchers hang."""
_FLAGS = ("-std=c11", "-O2")
_GRACE_S = 3.0

Launch = Callable[[int, Sequence[str]], list[str]]
"""A function (ranks per node, program) that returns the command to run it on both nodes."""


class LinkMeasurement(Document):
    """The measured network performance between two nodes (``berth.link/1``)."""

    schema_: str = Field(default=LINK_SCHEMA, alias="schema")
    nodes: tuple[str, ...] = Field(min_length=2, max_length=2)
    """The scheduler's names of the two nodes."""
    kernel: str = ""
    measured: str = ""
    """Start time of the measurement, in UTC."""
    interconnect: Interconnect | None = None
    without_mpi: str | None = None
    """Why MPI was not used; None where MPI was used."""
    problems: tuple[str, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """A compiled program and the command that starts the program on both nodes."""

    program: Path
    command: Launch
    fresh_folder: bool = False
    """True where the ranks find each other through a shared folder, a new one for each launch."""


def measure_link(
    into: Path,
    *,
    nodes: Sequence[str],
    launcher: Sequence[str],
    say: Say = say_nothing,
) -> LinkMeasurement:
    """Measure the network between ``nodes``, from a job on both, and write the result to ``into``.

    ``launcher``: the command that starts a program on both nodes, with ``{ranks}`` for the total
    number of ranks and ``{each}`` for ranks per node. Failures are listed in the result's
    ``problems``. Raises UsageError where the result cannot be written.
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
    """Yield a temporary folder beside ``into``, where both nodes can read it; delete it after use.

    Raises UsageError where the folder cannot be created.
    """
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
    """Return the measured network performance, and why MPI was not used (None: it was used)."""
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
    """Return the function that builds commands for this mpirun (Open MPI's or MPICH's options)."""
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
    """Compile a C program into ``folder`` and return the program's path. Raises PilotError."""
    sources = Path(str(resources.files("berth.pilot"))) / "network"
    program = folder / source.removesuffix(".c")
    words = [*compiler, *_FLAGS, str(sources / source), "-o", str(program), "-lm"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PilotError(f"{compiler[0]} does not work: {error}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if "error" in line.lower()]
        raise PilotError(f"{compiler[0]}: {(lines or ['it failed'])[0][:200]}")
    return program


def _all_of_it(way: _Way, folder: Path, say: Say, *, first_s: float) -> Interconnect:
    """Measure with one rank per node, then the all-reduce with several ranks per node.

    Raises PilotError where the first measurement fails.
    """
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
    """Run a command and return its exit status, standard output and standard error.

    Raises PilotError where the command cannot start or takes longer than ``limit_s`` seconds.
    """
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
    if os.geteuid() == 0:  # Open MPI refuses to run as root unless these variables are set
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return environment


def parsed(text: str, *, ranks: int) -> Interconnect:
    """Return the network performance that rank 0 printed as JSON. Raises PilotError otherwise."""
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
    """Return network performance as text, such as ``2 us, 10 GB/s (MPI: Open MPI v4.1.4)``."""
    latency = "-" if interconnect.latency_s is None else format_seconds(interconnect.latency_s)
    rate = "-" if interconnect.bytes_per_s is None else f"{interconnect.bytes_per_s / 1e9:.3g} GB/s"
    return f"{latency}, {rate} ({interconnect.measured_with})"
