"""A user who floods both sockets keeps nobody but himself from being answered (S1)."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

from berth_daemon import Harbour, forecast, wait_until
from made_forecasts import put
from other_users import ALICE, ASK, FLOOD, MALLORY, needs_root, run_as, running_as

CONNECTIONS, SUBMISSIONS = 300, 100
LONGEST_S = 5.0
"""Far more than a deadline: on a busy machine a test must not fail for want of a processor."""


def decided(path: Path) -> float | None:
    """Seconds until a placed answer came, by a connection as the filter makes one; None: none."""
    job = {"user": "alice", "uid": 1000, "kind": "batch", "queue": "auto", "comment": "berth:app"}
    line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": job}).encode()
    begun_s = time.perf_counter()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(LONGEST_S)
        try:
            peer.connect(str(path))
            peer.sendall(line + b"\n")
            reply = json.loads(peer.makefile("rb").readline())
        except (OSError, ValueError):
            return None
    return time.perf_counter() - begun_s if reply.get("code") == "placed" else None


@needs_root
def test_every_submission_is_decided_while_a_user_floods(site: Harbour) -> None:
    store = site.store()
    put(store, forecast("app"))
    daemon, users = site.start(), site.serve_users()
    wait_until(lambda: decided(site.socket) is not None)
    with running_as(MALLORY, FLOOD, str(CONNECTIONS), str(site.socket), str(site.user_socket)):
        took = [decided(site.socket) for _ in range(SUBMISSIONS)]
        answer = run_as(ALICE, ASK, str(site.user_socket), given=b'{"v":1,"op":"workloads"}')
    assert None not in took
    assert "workloads" in json.loads(answer.stdout), "another user is served meanwhile"
    assert daemon.stats()["connections"]["wrong-uid"] == 0, "no connection of his came through"
    assert "internal" not in users.log


@needs_root
def test_no_user_can_connect_to_the_schedulers_socket(site: Harbour) -> None:
    site.start()
    done = run_as(MALLORY, ASK, str(site.socket), given=b'{"v":1,"op":"stats"}')
    assert b"PermissionError" in done.stderr


@needs_root
def test_one_in_the_group_is_not_answered_by_the_schedulers_socket(site: Harbour) -> None:
    """Where a site lets others at the file, the daemon still looks at the uid."""
    daemon = site.start()
    site.socket.chmod(0o666)
    done = run_as(MALLORY, ASK, str(site.socket), given=b'{"v":1,"op":"stats"}')
    assert done.stdout == b""
    assert daemon.stats()["connections"]["wrong-uid"] == 1
