"""Whether every submission is decided in time while one user holds 1,000 connections.

Needs root: the flood comes from a real uid of its own. Prints how many of the submissions were
answered within the deadline, and how long they took, without and with the flood, and where the
scheduler's socket is open to all, so that each flooding connection
reaches the daemon and is refused there.

    python benchmarks/flood.py [--connections 1000] [--submissions 400] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from berth_daemon import forecast, harbour, wait_until  # noqa: E402
from made_forecasts import put  # noqa: E402
from other_users import FLOOD, MALLORY, running_as  # noqa: E402

DEADLINE_S = 0.050
JOB = {"user": "alice", "uid": 1000, "kind": "batch", "queue": "auto", "comment": "berth:app"}
LINE = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": JOB}).encode() + b"\n"


def decided_s(path: Path) -> float | None:
    """Seconds until the answer; None where there is none within a second."""
    begun_s = time.perf_counter()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(1.0)
        try:
            peer.connect(str(path))
            peer.sendall(LINE)
            reply = json.loads(peer.makefile("rb").readline())
        except (OSError, ValueError):
            return None
    return time.perf_counter() - begun_s if reply.get("code") == "placed" else None


def row(name: str, path: Path, submissions: int) -> dict[str, object]:
    found = [decided_s(path) for _ in range(submissions)]
    took = [one for one in found if one is not None]
    made: dict[str, object] = {
        "name": name,
        "submissions": submissions,
        "decided": len(took),
        "within_deadline": sum(one <= DEADLINE_S for one in took),
        "p50_ms": 1e3 * statistics.median(took) if took else None,
        "longest_ms": 1e3 * max(took) if took else None,
    }
    times = f"p50 {made['p50_ms']:.2f} ms, longest {made['longest_ms']:.1f} ms" if took else ""
    print(
        f"{name:<44}{made['decided']} of {submissions} decided, "
        f"{made['within_deadline']} within {1e3 * DEADLINE_S:g} ms; {times}"
    )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--submissions", type=int, default=400)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("only root can become the user who floods")
    rows = []
    for mode, name in (("0660", "flood"), ("0666", "flood, scheduler's socket open to all")):
        with harbour() as site, contextlib.ExitStack() as running:
            store = site.store()
            put(store, forecast("app"))
            site.start(arguments=["--socket-mode", mode])
            site.serve_users()
            wait_until(lambda site=site: decided_s(site.socket) is not None)
            if not rows:
                rows.append(row("nobody else", site.socket, options.submissions))
            paths = (str(site.socket), str(site.user_socket))
            running.enter_context(running_as(MALLORY, FLOOD, str(options.connections), *paths))
            time.sleep(0.5)
            rows.append(row(name, site.socket, options.submissions))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
