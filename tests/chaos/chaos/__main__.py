"""``python -m chaos``: one run on a real scheduler, and what its history breaks of the rules."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from chaos.checker import RULES, check
from chaos.clock import c_compiler
from chaos.history import History, read
from chaos.run import Place, Plan, run

_INSIDE = "BERTH_CHAOS_INSIDE"


def main() -> int:
    """0: every rule holds. 1: what does not is printed. 2: the scheduler cannot be had here."""
    options = argparse.ArgumentParser(prog="chaos", description=__doc__)
    options.add_argument("--on", choices=("slurm", "flux"), default="slurm")
    options.add_argument("--seconds", type=float, default=1800.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rate", type=float, default=20.0, help="submissions a second")
    options.add_argument("--deadline-ms", type=float, default=50.0)
    options.add_argument("--faults", default="", help="only these, separated by commas")
    options.add_argument("--gap", type=float, nargs=2, default=(4.0, 8.0), help="s between faults")
    options.add_argument("--longest", type=float, default=60.0, help="s that a fault lasts at most")
    options.add_argument("--other", default="", help="another version's berth, for upgrades")
    options.add_argument("--history", type=Path, help="where the history is written")
    options.add_argument("--check", type=Path, help="check this history, and do nothing else")
    options.add_argument("--rules", action="store_true", help="print the rules and end")
    given = options.parse_args()
    if given.rules:
        for rule in RULES:
            print(f"{rule.__name__}: {' '.join((rule.__doc__ or '').split())}")
        return 0
    if given.check:
        return _verdict(read(given.check))
    if _INSIDE not in os.environ and os.geteuid() == 0:
        # Disks that are mounted here are gone with the run, however it ends.
        words = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "chaos"]
        os.environ[_INSIDE] = "1"
        os.execvp(words[0], [*words, *sys.argv[1:]])  # noqa: S606
    history = given.history or Path(tempfile.mkdtemp(prefix="berth-chaos-")) / "history.jsonl"
    plan = Plan(
        given.seconds, given.seed, given.rate,
        tuple(filter(None, given.faults.split(","))), tuple(given.gap), given.longest,
    )  # fmt: skip
    if c_compiler() is None:
        print("no C compiler here: no fault of the clock")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all is cleaned up
    others = [shlex.split(given.other)] if given.other else []
    try:
        with _place(given.on, given.deadline_ms / 1000, others) as place:
            if not place.has_disk:
                print("no disk may be mounted here: no fault of a full one")
            run(place, plan, history, lambda text: print(text, flush=True))
    except _Unavailable as missing:
        print(f"CHAOS SKIPPED: {missing}")
        return 2
    print(f"history: {history}")
    return _verdict(read(history))


class _Unavailable(Exception):
    """There is no such scheduler here."""


def _place(
    scheduler: str, deadline_s: float, others: Sequence[Sequence[str]]
) -> AbstractContextManager[Place]:
    if scheduler == "flux":
        from flux_instance import why_no_flux

        if (why := why_no_flux()) is not None:
            raise _Unavailable(why)
        from chaos.on_flux import flux_place

        return flux_place(deadline_s, others)
    from slurm_cluster import ClusterUnavailable, require_slurm

    try:
        require_slurm()
    except ClusterUnavailable as missing:
        raise _Unavailable(missing) from None
    from chaos.on_slurm import slurm_place

    return slurm_place(deadline_s, others)


def _verdict(h: History) -> int:
    _table(h)
    violations = check(h)
    by_rule = Counter(violation.rule for violation in violations)
    for violation in violations[:40]:
        print(f"VIOLATED {violation}")
    print("; ".join(f"{rule}: {count}" for rule, count in by_rule.items())
          or f"{len(RULES)} rules, none violated")  # fmt: skip
    return 1 if violations else 0


def _table(h: History) -> None:
    refused = [one for one in h.submissions if one.status != 0]
    there = {job.name for job in h.jobs}
    print(
        f"{len(h.submissions)} submissions, {len(h.jobs)} jobs, "
        f"{sum(c.stamp is not None for c in h.calls)} with a stamp, "
        f"{sum(bool(c.changed) for c in h.calls)} changed; {len(h.decisions)} decisions stored, "
        f"{h.ending.unjournalled} not journalled; {len(refused)} saw an error, of these accepted "
        f"nevertheless: {sum(one.name in there for one in refused)}"
    )
    heads = ("times", "jobs", "decided", "filter p50", "p99", "max ms", "submit p50", "max ms")
    print(f"{'fault':24}" + "".join(f"{head:>11}" for head in heads))
    for name in (None, *sorted({fault.name for fault in h.faults})):
        windows = h.under(*([name] if name else {f.name for f in h.faults}))
        calls = [c for c in h.calls if windows.hold(c.at_s) == bool(name)]
        waits = [one.ended_s - one.begun_s for one in h.submissions
                 if windows.hold(one.begun_s) == bool(name)]  # fmt: skip
        took = sorted(c.took_s for c in calls) or [0.0]
        waits = waits or [0.0]
        times = sum(fault.name == name for fault in h.faults)
        figures = (
            times or "", len(calls), sum(c.stamp is not None for c in calls),
            *(f"{1e3 * value:.2f}" for value in (
                statistics.median(took), took[int(0.99 * (len(took) - 1))], took[-1],
                statistics.median(waits), max(waits),
            )),
        )  # fmt: skip
        print(f"{name or '(no fault)':24}" + "".join(f"{figure:>11}" for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
