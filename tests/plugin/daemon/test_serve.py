"""``berth serve`` as a process: its life, its faults, its size."""

from __future__ import annotations

import errno
import json
import os
import pwd
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import Harbour, RunningDaemon, fake_slurm, forecast, wait_until
from made_forecasts import put
from warm_berth import run_berth

from berth.pilot.errors import BerthError
from berth.plugin.daemon import client
from berth.plugin.store import Store

ASK = {"queue": "auto", "comment": "berth:stream"}


@pytest.fixture
def ready(site: Harbour) -> Harbour:
    """A site whose store knows the workload ``stream``."""
    put(site.store(), forecast("stream"))
    return site


def test_a_profile_added_while_it_runs_is_used_without_a_restart(site: Harbour) -> None:
    daemon = site.start()
    assert daemon.decide(**ASK)["code"] == "no-workload"
    put(site.store(), forecast("stream"))
    wait_until(lambda: daemon.decide(**ASK)["action"] == "edit")
    site.store().remove_workload("stream")
    wait_until(lambda: daemon.decide(**ASK)["code"] == "no-workload")


def test_it_works_on_postgresql(postgresql_url: str) -> None:
    from berth_daemon import harbour

    with harbour(postgresql_url) as site:
        store = site.store()
        put(store, forecast("stream"))
        daemon = site.start()
        reply = daemon.decide(**ASK)
        assert reply["action"] == "edit"
        wait_until(lambda: store.decisions.get(reply["decision"]))
        assert daemon.stop() == 0
        store.close()


def test_every_answer_is_in_the_store_after_it_has_ended(ready: Harbour) -> None:
    daemon = ready.start()
    ids = [daemon.decide(**ASK)["decision"] for _ in range(50)]
    assert daemon.stop() == 0
    store = ready.store()
    assert all(store.decisions.get(name) is not None for name in ids)
    assert not ready.socket.exists()


def test_a_second_daemon_is_refused_even_while_the_first_hangs(ready: Harbour) -> None:
    first = ready.start()
    os.kill(first.pid, signal.SIGSTOP)
    second = ready.start(state=False, wait=False)
    assert second.process.wait() == 1
    os.kill(first.pid, signal.SIGCONT)
    assert first.decide(**ASK)["action"] == "edit"


def test_a_changed_site_file_is_read_without_a_restart(ready: Harbour) -> None:
    daemon = ready.start()
    assert daemon.decide(**ASK)["action"] == "edit"
    ready.write_site(mode="shadow")
    wait_until(lambda: daemon.decide(**ASK)["action"] == "keep")
    ready.write_site(mode="enforce", coverage='[coverage.users]\nexclude = ["alice"]')
    wait_until(lambda: daemon.decide(**ASK)["code"] == "not-covered-user")


@pytest.mark.parametrize(
    "breakage",
    [
        lambda path: path.write_text("mode = ["),
        lambda path: path.write_text('schema = "berth.site/1"\nmode = "fast"\n'),
        lambda path: path.write_text('schema = "berth.site/2"\n'),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_broken_site_file_keeps_the_old_one_in_force(ready: Harbour, breakage: Any) -> None:
    daemon = ready.start()
    breakage(ready.site_file)
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: daemon.stats()["problems"].get("site watcher"))
    assert "stays in force" in daemon.stats()["problems"]["site watcher"]
    assert daemon.decide(**ASK)["action"] == "edit"
    if ready.site_file.is_dir():
        ready.site_file.rmdir()
    ready.write_site(mode="shadow")
    wait_until(lambda: daemon.decide(**ASK)["action"] == "keep")
    wait_until(lambda: daemon.stats()["problems"] == {})


def test_a_new_scheduler_user_that_does_not_exist_keeps_the_old_site(ready: Harbour) -> None:
    daemon = ready.start()
    ready.write_site(user="no-such-user-here", mode="shadow")
    wait_until(lambda: daemon.stats()["problems"])
    wait_until(lambda: "no-such-user-here" in daemon.log)
    assert daemon.decide(**ASK)["action"] == "edit"


def test_hangups_in_a_row_harm_nothing(ready: Harbour) -> None:
    daemon = ready.start()
    for _ in range(50):
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.decide(**ASK)["action"] == "edit"


def test_with_the_store_locked_answers_go_on_and_come_into_it_later(ready: Harbour) -> None:
    daemon = ready.start()
    store = ready.store()
    path = store.database.path
    assert path is not None
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    replies = [daemon.decide(**ASK) for _ in range(20)]
    assert {reply["action"] for reply in replies} == {"edit"}
    wait_until(lambda: daemon.stats()["recorder"]["spooled"] > 0)
    assert "locked" in daemon.stats()["recorder"]["problem"]
    holder.execute("ROLLBACK")
    wait_until(lambda: store.decisions.count() == 20, timeout_s=30)
    wait_until(lambda: daemon.stats()["recorder"]["problem"] is None)
    assert not (ready.folder / "store.db.spool.jsonl").exists()


def test_with_the_store_deleted_answers_go_on_and_come_into_a_new_one(ready: Harbour) -> None:
    daemon = ready.start()
    for file in ready.folder.glob("store.db*"):
        file.unlink()
    first = daemon.decide(**ASK)
    assert first["action"] == "edit"
    wait_until(lambda: daemon.stats()["problems"].get("store watcher"))
    wait_until(lambda: daemon.stats()["recorder"]["spooled"] == 1)
    assert daemon.decide(**ASK)["action"] == "edit"
    store = ready.store()
    wait_until(lambda: store.decisions.get(first["decision"]), timeout_s=30)
    wait_until(lambda: daemon.decide(**ASK)["code"] == "no-workload")  # the new one has none


def test_with_the_store_damaged_answers_go_on(ready: Harbour) -> None:
    daemon = ready.start()
    path = ready.folder / "store.db"
    path.write_bytes(os.urandom(path.stat().st_size))
    for file in ready.folder.glob("store.db-*"):
        file.unlink()
    assert daemon.decide(**ASK)["action"] == "edit"
    wait_until(lambda: daemon.stats()["recorder"]["spooled"] > 0)
    assert daemon.decide(**ASK)["action"] == "edit"
    assert daemon.stop() == 0


def test_a_damaged_store_at_the_start_is_one_sentence(ready: Harbour) -> None:
    path = ready.folder / "store.db"
    path.write_bytes(b"SQLite format 3\0" + os.urandom(10_000))
    daemon = ready.start(state=False, wait=False)
    assert daemon.process.wait() == 1
    assert "Traceback" not in daemon.log
    assert "store.db" in daemon.log


def test_a_broken_site_file_at_the_start_is_one_sentence(ready: Harbour) -> None:
    ready.site_file.write_text("mode = 7")
    daemon = ready.start(state=False, wait=False)
    assert daemon.process.wait() == 2
    assert "Traceback" not in daemon.log


def test_a_full_disk_costs_neither_records_nor_answers(ready: Harbour) -> None:
    daemon = ready.start()
    (ready.folder / "store.db.spool.jsonl").mkdir()
    (ready.folder / "store.db").rename(ready.folder / "away")
    for _ in range(5):
        assert daemon.decide(**ASK)["action"] == "edit"
    wait_until(lambda: daemon.stats()["recorder"]["problem"] is not None)
    assert daemon.decide(**ASK)["action"] == "edit"
    wait_until(lambda: daemon.stats()["recorder"]["queued"] == 6)
    assert daemon.stats()["recorder"]["dropped"] == 0
    (ready.folder / "away").rename(ready.folder / "store.db")
    wait_until(lambda: daemon.stats()["recorder"]["stored"] == 6)
    assert ready.store().decisions.count() == 6


def test_a_replaced_socket_ends_it_for_the_supervisor(ready: Harbour) -> None:
    daemon = ready.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(ready.folder / "other"))
        (ready.folder / "other").replace(ready.socket)
        assert daemon.process.wait() == 1
    wait_until(lambda: "somebody else's" in daemon.log)


def test_without_a_scheduler_nothing_is_placed_and_it_says_why(ready: Harbour) -> None:
    commands = fake_slurm(ready.folder / "bin")
    daemon = ready.start()
    for name in ("partition", "node", "config", "squeue", "version"):
        commands.fails(name, "slurmctld is down\n")
    wait_until(lambda: "slurmctld is down" in str(daemon.stats()["problems"]))
    assert daemon.decide(**ASK)["action"] == "edit"  # the last state is fresh enough yet
    fresh = ready.start  # a new daemon never saw any state
    daemon.stop()
    started = fresh(state=False, path=commands.tools)
    assert started.decide(**ASK)["code"] == "stale-state"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_only_the_configured_users_are_answered(ready: Harbour) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    script = (
        "import socket, sys\n"
        "peer = socket.socket(socket.AF_UNIX)\n"
        "peer.settimeout(10)\n"
        "peer.connect(sys.argv[1])\n"
        "try:\n"
        '    peer.sendall(b\'{"v":1,"op":"ping"}\\n\')\n'
        "    print(peer.recv(100))\n"
        "except (BrokenPipeError, ConnectionResetError):\n"
        "    print(b'')\n"
    )

    def as_nobody() -> str:
        command = ["/usr/bin/env", "python3", "-c", script, str(ready.socket)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, user=nobody, cwd="/"
        )
        return done.stdout.strip()

    daemon = ready.start()
    assert as_nobody() == "b''"
    wait_until(lambda: daemon.stats()["connections"]["wrong-uid"] == 1)
    wait_until(lambda: f"uid {nobody} is not a scheduler user" in daemon.log)
    ready.write_site(user="nobody")
    wait_until(lambda: "ping" in as_nobody() or '"v":1' in as_nobody())


def test_nothing_heavy_is_loaded_and_it_stays_small(ready: Harbour) -> None:
    put(ready.store(), *(forecast(f"p{n}") for n in range(80)))
    daemon = ready.start(fresh=True)
    for n in range(80):
        daemon.decide(queue="auto", comment=f"berth:p{n}")
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    resident_bytes = 1024 * int(status.partition("VmRSS:")[2].split()[0])
    assert resident_bytes < 120e6
    maps = Path(f"/proc/{daemon.pid}/maps").read_text()
    for library in ("onnxruntime", "torch", "xgboost", "pandas", "pyarrow"):
        assert library not in maps


def test_what_the_daemon_imports_is_light(ready: Harbour) -> None:
    program = (
        "import sys\n"
        "import berth.plugin.cli.serve, berth.plugin.daemon.app\n"
        "from berth.plugin.store import Store\n"
        f"Store.open({ready.store_url!r}).changes_since(0)\n"
        "heavy = ('torch', 'xgboost', 'pandas', 'sklearn', 'scipy', 'onnxruntime', 'onnx',\n"
        "         'alembic', 'numpy', 'pyarrow', 'pynvml', 'psycopg')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_service_manager_is_told(ready: Harbour) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(ready.folder / "notify"))
        manager.settimeout(10)
        environment = {"NOTIFY_SOCKET": str(ready.folder / "notify")}
        daemon = ready.start(state=False, environment=environment)
        assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"WATCHDOG=1"
        daemon.stop()
        told = {manager.recv(100)}
        while b"STOPPING=1" not in told:
            told.add(manager.recv(100))


def test_status_is_shown_and_an_absent_daemon_is_one_sentence(ready: Harbour) -> None:
    def status(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_berth("serve", "--site", ready.site_file, "--status", *arguments)

    daemon = ready.start()
    daemon.decide(**ASK)
    assert "mode       enforce" in status().stdout
    assert "decisions  decisions 1, edit 1\n" in status().stdout
    assert json.loads(status("--json").stdout)["counts"]["decisions"] == 1
    daemon.stop()
    absent = status()
    assert absent.returncode == 1
    assert "no daemon answers" in absent.stderr
    assert "Traceback" not in absent.stderr


def test_who_may_not_reach_the_socket_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Denied(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(client.socket, "socket", Denied)  # root may reach every socket
    with pytest.raises(BerthError, match="this user may not reach the daemon") as told:
        client.ask(tmp_path / "berth.sock", {"v": 1, "op": "ping"})
    assert "root" in str(told.value.hint)


def test_what_does_not_speak_the_protocol_is_said(site: Harbour) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(site.socket))
        daemon = RunningDaemon(None, site.site_file, site.socket, site.site_file)  # type: ignore[arg-type]
        with pytest.raises(BerthError, match="no daemon answers"):
            daemon.ask(op="ping")


def test_the_store_is_usable_by_others_while_it_runs(ready: Harbour) -> None:
    ready.start()
    store = Store.open(ready.store_url, busy_timeout_s=2)
    for n in range(20):
        put(store, forecast(f"p{n}"))
    assert len(store.workloads()) == 21
