"""slurmctld's primary dies in the middle of submissions: the backup's filter places the others."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from fake_daemon import FakeDaemon, move_to
from slurm_cluster import USER, Cluster, as_user, cluster_or_skip, wait_until
from two_controllers import TAKEOVER_S, launch_backup, two_controllers

from berth.plugin.slurm.filter import FILTER_PATH

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

PER_SECOND = 20
REFUSALS = ("Unspecified", "Invalid", "berth", "lua")
"""What sbatch says where a filter or the controller refuses a job."""
LOOP = """\
end=$(($(date +%s) + $1)); while [ "$(date +%s)" -lt "$end" ]; do
  (sbatch --parsable --hold -p auto --wrap=true; echo "status $?") & sleep "$2"
done; wait
"""


@pytest.fixture
def pair() -> Iterator[Cluster]:
    """A cluster with a backup controller, which has a host name of its own."""
    with cluster_or_skip(amend=two_controllers, job_submit=FILTER_PATH.read_text()) as running:
        launch_backup(running)
        running.set_filter_config()
        yield running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_no_submission_is_rejected_while_the_backup_takes_over(
    pair: Cluster, number: signal.Signals
) -> None:
    """Killed at once, slurmctld itself loses jobs that it accepted in its last seconds."""
    seconds = 3 * TAKEOVER_S
    with FakeDaemon(pair.berth_socket, lambda _: move_to("gpu")) as daemon:
        loop = subprocess.Popen(
            [*as_user(USER), "sh", "-c", LOOP, "sh", str(seconds), str(1 / PER_SECOND)],
            env=pair.environment, cwd=pair.work, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(loop.stdout or ()))
        reader.start()
        wait_until(lambda: len(daemon.requests) > PER_SECOND, "the primary's filter asks")
        os.kill(pair.pids["slurmctld"], number)
        asked = len(daemon.requests)
        began = time.monotonic()
        wait_until(lambda: len(daemon.requests) > asked + PER_SECOND, "the backup's filter asks")
        print(f"placed again {time.monotonic() - began:.1f} s after the primary died")
        loop.wait()
        reader.join()
    states = [line for line in said if line.startswith("status ")]
    taken = states.count("status 0\n")
    refused = [line for line in said if line.startswith("sbatch: error")]
    # What was on its way to a controller that ends has no answer: its client says so.
    assert len(states) - taken <= PER_SECOND / 2, refused
    assert not any(word in line for line in refused for word in REFUSALS), refused
    jobs = sorted(int(line) for line in said if line.strip().isdigit())
    assert len(jobs) == taken == len(set(jobs))
    there = pair.run("squeue", "-h", "-a", "-o", "%A %P").stdout.split("\n")
    found = dict(line.split() for line in there if line)
    unanswered = len(states) - taken
    assert len({int(job) for job in found} - set(jobs)) <= unanswered
    if number is signal.SIGTERM:
        assert {int(job) for job in found} >= set(jobs)  # none lost
    assert set(found.values()) == {"gpu"}
    print(f"{len(jobs)} submissions, all placed by one of the two filters")
