"""Programs that run as another user of this host, by a real uid: attackers, and honest users."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PYTHON = "/usr/bin/python3"
"""One that every user may run, with the standard library only."""
ALICE, BOB, MALLORY = 23_001, 23_002, 23_003
"""Uids that no user of this host has: their names are ``uid:N``."""

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path(PYTHON).exists(),
    reason="NOT TESTED: only root can become other users",
)

ASK = """
import json, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.settimeout(20)
peer.connect(sys.argv[1])
peer.sendall(sys.stdin.buffer.read().replace(b"\\n", b" ") + b"\\n")
sys.stdout.write(peer.makefile().readline())
"""

FLOOD = """
import errno, os, resource, select, socket, sys, time
count, paths = int(sys.argv[1]), sys.argv[2:]
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
poll, peers = select.epoll(), {}
turn = refused = 0
sys.stdout.write("begun\\n"); sys.stdout.flush()
while True:
    for _ in range(32):
        if len(peers) >= count:
            break
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        turn += 1
        try:
            peer.connect(paths[turn % len(paths)])
            peer.send(b'{"v":1,"op":"decide","scheduler":"slurm","job":{')
        except OSError as error:
            peer.close()
            continue
        peers[peer.fileno()] = peer
        poll.register(peer, select.EPOLLIN)
    for fd, _ in poll.poll(0.001, 256):
        peers.pop(fd).close()
"""
"""Holds as many half-made requests as it may, and connects anew wherever one is closed."""


def _as(uid: int) -> tuple[str, ...]:
    """Words in front of a command; ``subprocess``'s own ``user`` would copy this whole process."""
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")


def run_as(
    uid: int, code: str, *arguments: str, given: bytes = b"", timeout_s: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run Python code as that user, with no other group than one of its own."""
    return subprocess.run(
        [*_as(uid), PYTHON, "-I", "-c", code, *arguments],
        input=given,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        cwd="/",
    )


@contextmanager
def running_as(uid: int, code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of that user that has written its first line; killed at the end."""
    process = subprocess.Popen(
        [*_as(uid), PYTHON, "-I", "-c", code, *arguments],
        stdout=subprocess.PIPE,
        cwd="/",
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
