"""What connects two nodes: measured over TCP and MPI, on shaped links, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.pilot.documents import read_json
from berth.pilot.errors import PilotError, UsageError
from berth.pilot.network import links
from berth.pilot.network.links import LinkMeasurement, in_words, measure_link, parsed
from berth.plugin.cli import main

LAUNCHER = """#!/bin/sh
# Starts a command so many times, as a launcher that knows no MPI.
ranks=$1; shift
status=0
for rank in $(seq 1 $((ranks - 1))); do BERTH_RANK=$rank "$@" & done
BERTH_RANK=0 "$@" || status=$?
wait
exit $status
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that stands alone, without MPI, where ``launch`` is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cc", "gcc", "as", "ld", "sh", "seq", "uname"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    (folder / "launch").write_text(LAUNCHER)
    (folder / "launch").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    for name in ("SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "FLUX_TASK_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(links, "MOST_RANKS_A_NODE", 1)
    return folder


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


def measured(tmp_path: Path) -> LinkMeasurement:
    into = tmp_path / "results" / "a,b.json"
    found = measure_link(into, nodes=("a", "b"), launcher=("launch", "{ranks}"))
    assert read_json(into, LinkMeasurement) == found
    assert [path.name for path in into.parent.iterdir()] == [into.name]
    return found


@pytest.mark.slow
def test_without_mpi_it_is_measured_over_tcp_and_says_why(tmp_path: Path, tools: Path) -> None:
    found = measured(tmp_path)
    assert found.complete
    made = found.interconnect
    assert made is not None
    assert made.measured_with == "TCP"
    assert made.nodes == ("a", "b")
    assert found.without_mpi == "there is no mpicc"
    assert made.latency_s is not None
    assert made.bytes_per_s is not None
    assert 1e-7 < made.latency_s < 1
    assert 1e6 < made.bytes_per_s < 1e12
    sizes = [one.message_bytes for one in made.all_reduce]
    assert sizes == sorted(sizes)
    assert len(sizes) > 2
    assert in_words(made).endswith("(TCP)")


def test_several_ranks_on_a_node_reduce_too(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_RANKS_A_NODE", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    made = measured(tmp_path).interconnect
    assert made is not None
    assert {one.ranks for one in made.all_reduce} == {2, 4}


def test_an_mpi_that_does_not_fit_its_launcher_is_said_and_tcp_is_used(
    tmp_path: Path, tools: Path
) -> None:
    """Each rank is then a program of its own: what it measured would be of one node."""
    alone = 'echo "the launcher and this MPI do not fit: 1 ranks, not 2" >&2; exit 3'
    program(tools, "mpicc", f"shift 3; printf '#!/bin/sh\\n{alone}\\n' > \"$2\"; /bin/chmod +x $2")
    program(tools, "mpirun", 'echo "error: no slots" >&2; exit 1')
    found = measured(tmp_path)
    assert found.interconnect is not None
    assert found.interconnect.measured_with == "TCP"
    assert found.without_mpi is not None
    assert "mpirun: exit status 1: error: no slots" in found.without_mpi
    assert "launch: exit status 3: the launcher and this MPI do not fit" in found.without_mpi


@pytest.mark.slow
def test_a_launcher_that_hangs_is_given_up(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tools, "mpicc", 'shift 3; echo > "$2"')
    program(
        tools,
        "mpirun",
        f'[ "$1" != --version ] || exit 0\necho $$ > {tmp_path}/pid; exec /bin/sleep 60',
    )
    monkeypatch.setattr(links, "FIRST_LIMIT_S", 1.0)
    found = measured(tmp_path)
    assert found.without_mpi is not None
    assert "mpirun: nothing came within 1 s" in found.without_mpi
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert found.complete


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("launch", "exit status 9"),
        ("cc", "there is no"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence_in_the_result(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch, broken: str, said: str
) -> None:
    if broken == "cc":
        for name in ("cc", "gcc"):
            (tools / name).unlink(missing_ok=True)
        said = "C compiler"
    else:
        program(tools, broken, "exit 9")
    found = measured(tmp_path)
    assert not found.complete
    assert found.interconnect is None
    (problem,) = found.problems
    assert said in problem


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"ranks": 1, "library": "x", "all_reduce": []}',
             '{"ranks": 2, "library": "x", "all_reduce": [[8, -1]]}', '{"ranks": 2}']
)  # fmt: skip
def test_what_a_program_may_print_instead_is_refused(text: str) -> None:
    with pytest.raises(PilotError):
        parsed(text, ranks=2)


def test_a_result_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((UsageError, OSError)):
        measure_link(tmp_path / "file" / "x.json", nodes=("a", "b"), launcher=("launch",))


def _mpi_compiles() -> bool:
    """Return whether there is an ``mpicc`` with its headers, which are a package of their own."""
    if shutil.which("mpicc") is None:
        return False
    words = ("mpicc", "-include", "mpi.h", "-E", "-x", "c", "/dev/null")
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _mpi_compiles(), reason="NOT TESTED WITH MPI: no mpicc, or no mpi.h")
def test_by_mpi_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_RANKS_A_NODE", 1)
    both = ("mpirun", "--oversubscribe", "--host", "localhost:2", "-np", "{ranks}")
    monkeypatch.setattr(links, "_mpirun", lambda _: links._by(both))
    into = tmp_path / "a,b.json"
    found = measure_link(into, nodes=("a", "b"), launcher=("false",))
    assert found.interconnect is not None, found.problems
    assert found.without_mpi is None
    assert found.interconnect.measured_with.startswith("MPI: ")


class Shaped:
    """Two network namespaces with a link between them that ``tc`` shapes."""

    def __init__(self, name: str) -> None:
        self._spaces = (f"{name}a", f"{name}b")
        self._ends = (f"{name}0", f"{name}1")

    def make(self, *shape: str) -> None:
        for space in self._spaces:
            _ip("netns", "add", space)
        _ip("link", "add", self._ends[0], "type", "veth", "peer", "name", self._ends[1])
        for i, (space, end) in enumerate(zip(self._spaces, self._ends, strict=True), 1):
            _ip("link", "set", end, "netns", space)
            _ip("-n", space, "addr", "add", f"10.213.7.{i}/24", "dev", end)
            _ip("-n", space, "link", "set", end, "up")
            _ip("netns", "exec", space, "tc", "qdisc", "add", "dev", end, "root", *shape)

    def remove(self) -> None:
        for space in self._spaces:
            with contextlib.suppress(subprocess.CalledProcessError, OSError):
                _ip("netns", "del", space)

    def run(self, program: Path, meeting: Path) -> str:
        ends = [
            subprocess.Popen(
                ["ip", "netns", "exec", space, str(program), "2", str(meeting), f"10.213.7.{i}"],
                env={**os.environ, "BERTH_RANK": str(i - 1)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for i, space in enumerate(self._spaces, 1)
        ]
        return "".join(end.communicate()[0] for end in ends)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def shaped() -> Iterator[Shaped]:
    if os.geteuid() != 0 or shutil.which("tc") is None or shutil.which("ip") is None:
        pytest.skip("NOT TESTED ON SHAPED LINKS: needs root, ip and tc")
    made = Shaped(f"bl{os.getpid() % 10_000}{time.monotonic_ns() % 100:02d}")
    yield made
    made.remove()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "least_latency_s", "most_bytes_per_s"),
    [
        (("tbf", "rate", "400mbit", "burst", "64kb", "latency", "400ms"), 0.0, 60e6),
        (("netem", "delay", "2ms"), 1.9e-3, 1e12),
    ],
)
def test_a_shaped_link_is_found_to_be_as_it_was_shaped(
    shaped: Shaped,
    tmp_path: Path,
    shape: tuple[str, ...],
    least_latency_s: float,
    most_bytes_per_s: float,
) -> None:
    try:
        shaped.make(*shape)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT TESTED ON A LINK SHAPED BY {shape[0]}: {error.stderr.strip()}")
    built = links._compiled(links.find_compiler(), links.TCP_SOURCE, tmp_path)
    meeting = tmp_path / "meet"
    meeting.mkdir()
    made = parsed(shaped.run(built, meeting), ranks=2)
    assert made.latency_s is not None
    assert made.bytes_per_s is not None
    assert made.latency_s >= least_latency_s
    assert made.bytes_per_s <= most_bytes_per_s
    if shape[0] == "tbf":
        assert made.bytes_per_s > 20e6
        largest = max(made.all_reduce, key=lambda one: one.message_bytes)
        # Each of two ranks sends as many bytes as there are.
        assert largest.seconds >= largest.message_bytes / most_bytes_per_s


def run(*words: object) -> int:
    try:
        main([str(word) for word in words])
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


@pytest.mark.slow
def test_the_command_writes_and_says_what_it_found(
    tmp_path: Path, tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "x.json"
    asked = ("pilot", "link", "--nodes", "a,b", "--into", into, "--launcher", "launch {ranks}")
    assert run(*asked) == 0
    said = capsys.readouterr()
    assert "(TCP), written to" in said.out
    assert "warning: not by MPI: there is no mpicc" in said.err
    assert json.loads(into.read_text())["complete"] is True
    program(tools, "launch", "exit 4")
    assert run(*asked) == 1
    assert "nothing was measured: exit status 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--nodes", "a"), ("--nodes", "a,"), ("--launcher", ""), ("--launcher", "x {no}"),
     ("--launcher", "x '")],
)  # fmt: skip
def test_wrong_usage_is_one_sentence(
    tmp_path: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--nodes": "a,b", "--launcher": "x", "--into": str(tmp_path / "x"), option: value}
    assert run("pilot", "link", *(word for pair in given.items() for word in pair)) == 2
    assert option in capsys.readouterr().err
