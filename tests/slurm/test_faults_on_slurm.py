"""Whatever happens to the daemon, 100 of 100 jobs are accepted, unchanged, and soon at no cost."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
from fake_daemon import FakeDaemon, move_to
from real_daemon import RealDaemon, by_time_alone, real_daemon
from slurm_cluster import Cluster, wait_until

JOBS = 100
FAILURES_TO_OPEN = 3
DEADLINE_S = 0.05
ASKED = ("-p", "auto", "-n", "4", "--mem=100", "--comment=berth:stream")
UNKNOWN = ("-p", "auto", "-n", "4", "--mem=100", "--comment=nightly")
"""A job of whose program nothing is known: placed by fit."""

Fault = Callable[[Cluster], AbstractContextManager[object]]


@pytest.fixture
def cluster_under_fault(slurm: Cluster) -> Cluster:
    slurm.set_filter_config(
        deadline_ms=DEADLINE_S * 1000,
        breaker_failures=FAILURES_TO_OPEN,
        breaker_first_pause_s=30,
        reread_config_s=10,
    )
    return slurm


def by_fit(site_file: str) -> str:
    """The site file's text with jobs of unknown programs placed by fit, as sites have it."""
    return by_time_alone(site_file).replace('[fit]\nmode = "off"', '[fit]\nmode = "enforce"')


def unchanged_shape(slurm: Cluster, asked: tuple[str, ...] = ASKED) -> str:
    """What the same job looks like when it opts out of Berth."""
    *words, comment = asked
    ids = slurm.submit_many(1, *words, "--comment=berth:off")
    return next(iter(slurm.shapes(ids))).replace("berth:off", comment.partition("=")[2])


def absent(_: Cluster) -> AbstractContextManager[object]:
    return nullcontext()


def answering(raw: bytes, *, trickle_s: float = 0.0) -> Fault:
    def fault(slurm: Cluster) -> AbstractContextManager[object]:
        daemon = FakeDaemon(slurm.berth_socket, lambda _: raw)
        daemon.trickle_s = trickle_s
        return daemon

    return fault


@contextmanager
def stopped(slurm: Cluster) -> Iterator[None]:
    with real_daemon(slurm, amend=by_fit) as daemon:
        os.kill(daemon.pid, signal.SIGSTOP)
        yield


@contextmanager
def killed(slurm: Cluster) -> Iterator[None]:
    with real_daemon(slurm, amend=by_fit) as daemon:
        os.kill(daemon.pid, signal.SIGKILL)
        yield


@contextmanager
def a_mute_listener(slurm: Cluster) -> Iterator[None]:
    """Another program has taken the path: it accepts, and says nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(slurm.berth_socket))
        listener.listen(200)
        yield
    slurm.berth_socket.unlink()


ANSWER = json.dumps(move_to("gpu,cpu")).encode() + b"\n"
FAULTS: dict[str, Fault] = {
    "absent": absent,
    "killed": killed,
    "stopped": stopped,
    "trickling bytes": answering(ANSWER, trickle_s=DEADLINE_S / 10),
    "garbage": answering(b"\x00\xff{]\n"),
    "a mute listener in its place": a_mute_listener,
}


@pytest.mark.parametrize("name", FAULTS)
def test_all_jobs_are_accepted_unchanged(cluster_under_fault: Cluster, name: str) -> None:
    slurm = cluster_under_fault
    expected = unchanged_shape(slurm)
    slurm.timings.unlink()
    with FAULTS[name](slurm):
        jobs = slurm.submit_many(JOBS, *ASKED)
        assert len(jobs) == JOBS
        assert slurm.shapes(jobs) == {expected}
    assert len(slurm.calls_s()) == JOBS


@pytest.mark.parametrize("asked", [ASKED, UNKNOWN], ids=["forecast", "fit"])
def test_a_daemon_killed_while_jobs_come_in_harms_none_of_them(
    cluster_under_fault: Cluster, asked: tuple[str, ...]
) -> None:
    """Each job is either placed or unchanged, never in between, never lost."""
    slurm = cluster_under_fault
    slurm.install_filter(breaker_failures=FAILURES_TO_OPEN, breaker_first_pause_s=30)
    unchanged = unchanged_shape(slurm, asked)
    with real_daemon(slurm, amend=by_fit) as daemon:
        placed = slurm.shapes(slurm.submit_many(1, *asked))
        assert placed != {unchanged}
        killer = threading.Timer(0.25, os.kill, (daemon.pid, signal.SIGKILL))
        killer.start()
        jobs = slurm.submit_many(JOBS, *asked)
        killer.join()
    assert len(jobs) == JOBS
    assert slurm.shapes(jobs) <= placed | {unchanged}
    assert slurm.shapes(jobs[-10:]) == {unchanged}


def test_after_a_fault_the_daemon_is_asked_again(slurm: Cluster) -> None:
    slurm.set_filter_config(breaker_first_pause_s=0.05, breaker_longest_pause_s=0.05)
    slurm.submit_many(5, *ASKED)
    with real_daemon(slurm):

        def placed() -> bool:
            return slurm.job(slurm.submit_many(1, *ASKED)[0])["Partition"] == "gpu"

        wait_until(placed, "jobs are placed again", 60)
    wait_until(lambda: "answers again" in slurm.log(), "slurmctld logs it")


def test_a_daemon_that_cannot_start_is_an_absent_daemon(cluster_under_fault: Cluster) -> None:
    slurm = cluster_under_fault
    expected = unchanged_shape(slurm)
    daemon = RealDaemon(slurm)
    daemon.write_site()
    daemon.store_file.parent.mkdir(exist_ok=True)
    daemon.store_file.write_bytes(b"not a database" * 1000)
    before = len(slurm.log("berth")) if (slurm.root / "log" / "berth.log").exists() else 0
    daemon.launch()
    wait_until(lambda: "berth.db" in slurm.log("berth")[before:], "it says why", 60)
    assert slurm.shapes(slurm.submit_many(JOBS, *ASKED)) == {expected}
    daemon.store_file.unlink()
