"""A pilot changes none of its user's files; where it cannot keep them apart, it runs once.

Each trap writes a line each time that it runs, in a way that a private copy of the working folder
does not hold.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from berth.pilot import native
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.options import PilotOptions
from berth.pilot.profile import Profile
from berth.pilot.run_pilot import run_pilot

LINE = "echo step >> "
STATE = (
    "n=$(cat {0} 2>/dev/null || echo 0); echo $((n+1)) > {0}; yes step | head -$((n+1)) > {0}.log"
)
SQL = (
    "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); "
    "d.execute('create table if not exists t(step)'); d.execute('insert into t values(1)'); "
    "d.commit(); open(sys.argv[1] + '.log', 'w').write('step\\n' * "
    "d.execute('select count(*) from t').fetchone()[0])"
)
TRAPS: dict[str, str] = {
    "big folder": f"{LINE} results",
    "link": f"{LINE} out/results",
    "absolute path": f"{LINE} {{elsewhere}}/results",
    "state file": STATE.format("state"),
    "append": f"{LINE} results; {LINE} results.err 1>&2",
    "lock": f"exec 9> lock; flock -n 9 || exit 1; {LINE} results",
    "database": f'"{sys.executable}" -c "{SQL}" results.db',
    "home": f'{LINE} "$HOME/results"',
    "temporary folder": f'{LINE} "$TMPDIR/results"',
    "read-only": f"cd /; {LINE} {{elsewhere}}/results",
    "removal": f"rm input; {LINE} {{elsewhere}}/results",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: with an input, a link out, and a large file that takes no room."""
    for name in ("elsewhere", "home", "tmp", "work"):
        (tmp_path / name).mkdir()
    work = tmp_path / "work"
    (work / "out").symlink_to(tmp_path / "elsewhere")
    (work / "input").write_text("as it was\n")
    with (work / "field.dat").open("wb") as large:
        large.truncate(300_000_000)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return work


@pytest.fixture
def no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lets nobody isolate a program (a container, a file system such as NFS)."""

    def refused(order: Order, **how: object) -> ProcessResult:
        if order.isolated_in is not None:
            return ProcessResult(not_isolated="mount: Operation not permitted")
        return run_one(order, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(native, "run_one", refused)


def pilot(script: str, **more: object) -> tuple[Profile, list[str]]:
    told: list[str] = []
    options = PilotOptions(("/bin/sh", "-c", script), dict(os.environ), show_output=False)
    return run_pilot(replace(options, **more), tell=told.append), told  # type: ignore[arg-type]


def steps(here: Path) -> int:
    """Return the largest number of lines that one of the files has."""
    files = [path for path in here.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    texts = [path.read_bytes() for path in files if path.stat().st_size < 1_000_000]
    return max(text.count(b"step\n") for text in texts)


def can_isolate(here: Path) -> bool:
    (here.parent / "view").mkdir()
    order = Order(("/bin/true",), {}, isolated_in=str(here.parent / "view"))
    return run_one(order).not_isolated is None


@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_of_the_users_is_changed(here: Path, trap: str) -> None:
    if not can_isolate(here):
        pytest.skip("this machine lets nobody mount an overlay")
    profile, told = pilot(TRAPS[trap].format(elsewhere=here.parent / "elsewhere"), repeats=2)
    assert profile.exit_status == 0
    assert profile.runtime is not None
    assert len(profile.runtime.repeats_s) == 2
    assert steps(here) == 0
    assert (here / "input").read_text() == "as it was\n"
    assert not told
    assert any("is not kept, your files are as before" in text for text in profile.warnings)


def test_a_user_writes_in_a_folder_of_another_user_and_nothing_stays(here: Path) -> None:
    if not can_isolate(here):
        pytest.skip("this machine lets nobody mount an overlay")
    (view := here.parent / "other view").mkdir()
    folder, user = Path("/var/tmp"), []
    if os.getuid() == 0:
        folder, user = here, ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
        os.chown(here, 65534, 65534)
        here.chmod(0o777)
    order = Order(("/bin/sh", "-c", f"{LINE} trap"), {}, cwd=str(folder), isolated_in=str(view))
    run = f"from berth.pilot.launch import Order, run_one; print(run_one({order}))"
    done = subprocess.run([*user, sys.executable, "-c", run], capture_output=True, text=True)
    assert "exit_code=0" in done.stdout, done.stderr
    assert f"{folder}/trap" in done.stdout
    assert not (folder / "trap").exists()


@pytest.mark.parametrize("trap", TRAPS)
def test_where_nothing_can_be_kept_apart_it_runs_once_and_says_so_before(
    here: Path, no_view: None, trap: str
) -> None:
    profile, told = pilot(
        TRAPS[trap].format(elsewhere=here.parent / "elsewhere"), count=True, threads_sweep=(1,)
    )
    assert profile.runtime is not None
    assert len(profile.runtime.repeats_s) == 1
    assert steps(here) == 1
    [sentence] = told
    assert "Operation not permitted" in sentence
    assert "what it writes stays" in sentence
    assert any("left out" in text and "--in-place" in text for text in profile.warnings)


def test_in_place_it_runs_as_often_as_asked(here: Path) -> None:
    profile, told = pilot(f"{LINE} results", in_place=True, repeats=3)
    assert profile.runtime is not None
    assert steps(here) == len(profile.runtime.repeats_s) == 3
    assert told


@pytest.fixture
def server(here: Path) -> Iterator[Callable[[], int]]:
    """Serve as a program of the user that keeps what it receives; return how often it received."""
    messages: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(here / "server.sock"))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                messages.append(connection.recv(100))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield lambda: len(messages)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_server_that_is_out_of_reach_is_told_once(here: Path, server: Callable[[], int]) -> None:
    tell = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('server.sock'); s.send(b'x')"
    )
    profile, _ = pilot(f'"{sys.executable}" -c "{tell}"')
    assert profile.complete
    assert server() == 1


def test_a_rank_of_a_launch_shares_the_folder_of_the_others(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    pilot(f"{LINE} results")
    assert steps(here) == 1


def test_a_program_that_needs_more_room_than_there_is_runs_once_for_good(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(order: Order, **how: object) -> ProcessResult:
        result = run_one(order, **how)  # type: ignore[arg-type]
        return replace(result, written_full=order.isolated_in is not None)

    monkeypatch.setattr(native, "run_one", full)
    _, [sentence] = pilot(f"{LINE} results")
    assert "too little memory" in sentence
    assert steps(here) == 1
