"""A private Slurm whose nodes really differ: A has one full core, B has two throttled ones.

A program of one thread is faster on A, a program that keeps two cores busy is faster on B.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from slurm_cluster import Cluster, ClusterUnavailable

SHARE = 0.62
"""Of the time for which B's cores run."""

_LAYOUT = """\
NodeName=a1 NodeHostname={host} NodeAddr=127.0.0.1 Port={a1} CPUs=1 RealMemory=4000
NodeName=b1 NodeHostname={host} NodeAddr=127.0.0.1 Port={b1} CPUs=2 RealMemory=4000
PartitionName=full Nodes=a1 MaxTime=1-00:00:00 DefaultTime=01:00:00
PartitionName=pair Nodes=b1 Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00
PartitionName=auto Nodes=a1,b1 MaxTime=1-00:00:00 DefaultTime=01:00:00
PartitionName=closed Nodes=b1 State=INACTIVE DefaultTime=01:00:00
"""


class TwoKinds(Cluster):
    """Two nodes on two processors of this machine."""

    node_names = ("a1", "b1")
    nodes = _LAYOUT

    def __init__(self) -> None:
        self._processors = sorted(os.sched_getaffinity(0))[:2]
        if len(self._processors) < 2:
            raise ClusterUnavailable("two kinds of nodes need two processors")
        super().__init__(min_job_age_s=3600)
        self._throttled, self._first = _groups(f"berth-{self.root.name}")

    def start(self) -> None:
        """With the throttle of B running."""
        try:
            for group in (self._throttled, self._first):
                group.mkdir()
        except OSError as error:
            self.stop()
            raise ClusterUnavailable(f"no cgroup can be made: {error.strerror}") from None
        weight = self._first / "cpu.shares"
        weight.write_text("262144")
        super().start()
        script = Path(__file__).with_name("throttle.py")
        self.launch("throttle", sys.executable, str(script), str(self._throttled), str(SHARE))

    def stop(self) -> None:
        """Thawed before it ends: frozen processes do not."""
        with contextlib.suppress(KeyError, OSError, ProcessLookupError):
            os.kill(self.pids["throttle"], signal.SIGTERM)
        super().stop()
        for group in (self._throttled, self._first):
            for _ in range(100):
                with contextlib.suppress(OSError):
                    group.rmdir()
                if not group.exists():
                    break
                time.sleep(0.05)

    def before_others(self, *argv: str) -> tuple[str, ...]:
        """A command of which what else this machine does must wait."""
        return ("sh", "-c", f'echo $$ > {self._first}/cgroup.procs; exec "$@"', "sh", *argv)

    def slurmd(self, node: str) -> tuple[str, ...]:
        """On A's processor, or on both of B and in the group that is throttled."""
        mine = self._processors if node == "b1" else self._processors[:1]
        where = ",".join(str(number) for number in mine)
        # Times are compared: what else this machine does must wait.
        groups = [self._first] if node == "a1" else [self._first, self._throttled]
        enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
        return ("sh", "-c", f'{enter}exec "$@"', "sh", "taskset", "-c", where,
                *super().slurmd(node))  # fmt: skip


def _groups(name: str) -> tuple[Path, Path]:
    """A group that can be frozen and one that goes before others, to be made.

    Raises ClusterUnavailable.
    """
    found = tuple(Path("/sys/fs/cgroup") / part for part in ("freezer", "cpu"))
    if not all(os.access(folder / "cgroup.procs", os.W_OK) for folder in found):
        raise ClusterUnavailable("no control groups can be made here (freezer and cpu, version 1)")
    return found[0] / name, found[1] / name
