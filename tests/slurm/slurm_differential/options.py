"""Jobs at random over every long option that ``sbatch``, ``srun`` and ``salloc`` have here.

The names are the commands' own (``--help``); values come from a table by name, else by what the
help calls the value; each may be an odd one. The same seed makes the same jobs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from differential.random_jobs import random_options
from slurm_cluster import Cluster
from slurm_differential.pairs import SlurmAsk

_OPTION = re.compile(r"^\s+(?:-\w, )?--([a-z][a-z0-9-]*)(\[?=\S+)?", re.MULTILINE)
_LEFT_OUT = frozenset(
    (
        "help", "usage", "version", "hold", "comment", "job-name", "parsable",  # ours, or no job
        "test-only", "wait", "pty", "attach", "jobid", "no-shell", "bell", "no-bell",  # they wait
        "uid", "gid", "get-user-env", "wrap", "export-file", "chdir", "input", "clusters",
        "launch-cmd", "multi-prog", "bcast", "open-mode", "task-prolog", "task-epilog", "prolog",
        "epilog", "slurmd-debug", "immediate", "deadline-or-none", "pack-group", "het-group",
        "preserve-env", "resv-ports", "external-launcher",
    )
)  # fmt: skip
_COUNTS = ("1", "2", "4", "8", "16", "40", "64", "100", "0", "-1", "x")
_MEMORY = ("500", "2G", "20G", "64G", "100G", "400G", "0", "1T", "x")
_TIMES = ("1", "10", "30", "60", "06:00:00", "1-12:00:00", "3-00:00:00", "0", "x")
VALUES: Mapping[str, Sequence[str]] = {
    "account": ("free", "small", "narrow", "brief", "nogpu", "nobody"),
    "array": ("0-2", "1", "0-8:4%1", "5-1"),
    "batch": ("avx2", "nothing"),
    "begin": ("now", "now+1hour", "yesterday"),
    "bb": ("x",),
    "bbf": ("/nowhere",),
    "cluster-constraint": ("x",),
    "constraint": ("avx2", "amd", "intel&avx512", "h200", "avx2|h200", "nothing", "[amd|intel]"),
    "container": ("/tmp",),
    "contiguous": ("",),
    "core-spec": ("1", "0"),
    "cores-per-socket": ("1", "2", "32"),
    "cpu-freq": ("high", "performance", "x"),
    "cpus-per-gpu": ("1", "4", "32", "100"),
    "cpus-per-task": _COUNTS,
    "deadline": ("now+3hours", "now+20minutes"),
    "delay-boot": ("10",),
    "dependency": ("singleton", "afterany:999999"),
    "distribution": ("block", "cyclic", "plane=2", "arbitrary", "x"),
    "error": ("/dev/null",),
    "exclude": ("cpu1", "gpu1", "cpu[1-2]", "nowhere"),
    "exclusive": ("", "user", "mcs"),
    "export": ("ALL", "NONE", "HOME"),
    "extra-node-info": ("1", "2:2", "1:2:1"),
    "gpu-bind": ("closest", "none"),
    "gpu-freq": ("high", "x"),
    "gpus": ("1", "2", "h200:1", "9", "0", "x:1"),
    "gpus-per-node": ("1", "h200:2", "0", "9"),
    "gpus-per-socket": ("1",),
    "gpus-per-task": ("1", "h200:1", "0"),
    "gres": ("gpu:1", "gpu:h200:2", "none", "gpu:0", "nothing:1", "gpu"),
    "gres-flags": ("enforce-binding", "disable-binding", "x"),
    "hint": ("nomultithread", "compute_bound", "memory_bound", "multithread"),
    "kill-on-invalid-dep": ("yes", "no"),
    "licenses": ("x", "x:2"),
    "mail-type": ("END", "ALL", "x"),
    "mail-user": ("nobody",),
    "mem": _MEMORY,
    "mem-bind": ("local", "none", "x"),
    "mem-per-cpu": _MEMORY,
    "mem-per-gpu": _MEMORY,
    "mincpus": _COUNTS,
    "mcs-label": ("x",),
    "mpi": ("none",),
    "network": ("x",),
    "nice": ("10", "-10", ""),
    "no-kill": ("",),
    "nodefile": ("/nowhere",),
    "nodelist": ("cpu1", "cpu2", "gpu1", "nowhere"),
    "nodes": ("1", "2", "1-2", "2-2", "1-4", "3", "9", "0"),
    "ntasks": _COUNTS,
    "ntasks-per-core": ("1", "2"),
    "ntasks-per-gpu": ("1", "2"),
    "ntasks-per-node": _COUNTS,
    "ntasks-per-socket": ("1", "2", "8"),
    "output": ("/dev/null",),
    "partition": ("auto", "cpu", "gpu", "cpu,auto", "closed", "reserved", "nowhere"),
    "power": ("level",),
    "prefer": ("avx2", "h200", "nothing"),
    "priority": ("10",),
    "workload": ("none", "task"),
    "propagate": ("NONE",),
    "qos": ("normal", "long", "tight", "nothing"),
    "reservation": ("nothing",),
    "signal": ("USR1@60", "B:TERM", "x"),
    "sockets-per-node": ("1", "2", "9"),
    "switches": ("1", "1@10"),
    "thread-spec": ("1",),
    "threads-per-core": ("1", "2"),
    "time": _TIMES,
    "time-min": _TIMES,
    "tmp": ("100", "1T"),
    "wait-all-nodes": ("0", "1"),
    "wckey": ("x",),
}
_BY_PLACEHOLDER = (("n", ("1", "2", "0")), ("", ("x", "1")))
_SHAPES: Sequence[Sequence[str]] = (
    (), (), ("-n1",), ("-n2",), ("-n4",), ("-n8",), ("-n30",), ("-c4",), ("-n4", "-c2"), ("-N1",),
    ("-N2", "-n4"), ("-N1-2",), ("-n4", "--ntasks-per-node=2"), ("-n2", "--mem-per-cpu=4G"),
    ("--mem=8G",), ("-t", "20"), ("-n4", "-t", "01:00:00"),
)  # fmt: skip
_COMMANDS = ("sbatch",) * 17 + ("srun", "srun", "salloc")
_PROFILES = ("stream",) * 8 + ("brief", "hopper", "wide") + ("unheard-of",) * 3


def option_names(slurm: Cluster, command: str) -> dict[str, str]:
    """The long options of a command of this Slurm, with what the help calls the value."""
    text = slurm.run(command, "--help").stdout
    return {
        name: value.strip("[]=")
        for name, value in _OPTION.findall(text)
        if name not in _LEFT_OUT and not name.startswith("no-bell")
    }


def asks(
    seed: int, count: int, names: Mapping[str, Mapping[str, str]], *, batch_only: bool = False
) -> list[SlurmAsk]:
    """``count`` jobs of ``seed``; ``names``: the options of each command."""
    made = random.Random(seed)  # noqa: S311 - reproducible, no secret
    return [_ask(made, names, batch_only) for _ in range(count)]


def _ask(made: random.Random, names: Mapping[str, Mapping[str, str]], batch_only: bool) -> SlurmAsk:
    command = "sbatch" if batch_only else made.choice(_COMMANDS)
    words: list[str] = list(made.choice(_SHAPES))
    words += random_options(made, names[command], VALUES, _BY_PLACEHOLDER)
    if not any(word.startswith("--partition") for word in words):
        words += made.choice((("-p", "auto"),) * 9 + ((),))
    return SlurmAsk(tuple(words), command=command, workload=made.choice(_PROFILES))
