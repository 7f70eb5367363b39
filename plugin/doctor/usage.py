"""Doctor's check of what nodes tell about jobs that have ended (``berth pilot usage``)."""

from __future__ import annotations

import time
from contextlib import closing

from berth.pilot.usage.record import JOB_END
from berth.plugin.doctor.store import opened
from berth.plugin.findings import Findings, ok, warn
from berth.plugin.site.site import Site

_RECENT_S = 86_400.0
_EARLIER_S = 8 * 86_400.0
_REMEDIES = (
    ("cgroup: the job's group is gone", "PrologFlags=RunInJob, or a TaskEpilog: docs/usage.md"),
    ("cgroup: version 1", "only control groups of version 2 are read: docs/usage.md"),
    ("cgroup: none mounted", "mount cgroup2 at /sys/fs/cgroup"),
    ("nvml: accounting is off", "nvidia-smi -am 1 on the nodes with GPUs, as root"),
    ("nvml: a GPU here is cut", "nothing: what jobs used of slices is not read"),
    ("nvml: no answer in time", "nvidia-persistenced, or a longer BERTH_USAGE_DEADLINE_MS"),
    ("nvml:", "docs/usage.md says what NVML's accounting needs"),
)
_MANY = 0.5


def check_usage(site: Site) -> Findings:
    """Say whether nodes tell what jobs used, and what most of them cannot read."""
    now_s = time.time()
    with closing(opened(site)) as store:
        recent = store.usages.lacking_since(JOB_END, now_s - _RECENT_S)
        earlier = store.usages.lacking_since(JOB_END, now_s - _EARLIER_S)
    lines = sum(recent.values())
    if not lines and earlier:
        yield warn(
            "usage",
            "no node has told for a day what jobs used",
            "is the Epilog still in slurm.conf, and does berth-collect.timer run?",
        )
    elif not lines:
        yield ok("usage", "no node tells what jobs used (docs/usage.md says how they can)")
    else:
        jobs = "1 job" if lines == 1 else f"{lines} jobs, or parts of them,"
        yield ok("usage", f"nodes told what {jobs} used in the last day")
    for begin, remedy in _REMEDIES:
        lacking = sum(n for lacks, n in recent.items() if any(_clauses(lacks, begin)))
        if lacking > _MANY * lines:
            clause = next(c for lacks in recent for c in _clauses(lacks, begin))
            yield warn("usage", f"{lacking} of them lack something: {clause}", remedy)
            return


def _clauses(lacks: str, begin: str) -> list[str]:
    return [clause for clause in lacks.split("; ") if clause.startswith(begin)]
