"""Jobs at random over every long option of ``flux submit``, ``run``, ``batch`` and ``alloc``.

The names are the commands' own (``--help``); values come from a table by name, else by what the
help calls the value; each may be an odd one. The same seed makes the same jobs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from differential.random_jobs import random_options
from flux_differential.pairs import FluxAsk
from flux_instance import LiveFlux

COMMANDS = ("submit",) * 14 + ("run", "run", "batch", "batch", "alloc")
_OPTION = re.compile(r"^\s+(?:-\w, )?--([a-z][a-z0-9-]*)(\[?=\S+)?", re.MULTILINE)
_LEFT_OUT = frozenset(
    (
        "help", "list-plugins", "dry-run", "quiet", "verbose", "wait", "wait-event", "watch", "log",
        "log-stderr", "progress", "jps", "bg", "wrap", "conf", "dump", "input", "flags-file",
    )
)  # fmt: skip
"""They make no job, wait for it, or say where the command itself writes."""
_COUNTS = ("1", "2", "4", "8", "16", "17", "40", "0", "-1", "x")
VALUES: Mapping[str, Sequence[str]] = {
    "add-file": ("/etc/hostname", "data=/etc/hostname", "/nowhere"),
    "bank": ("physics", "x y"),
    "bcc": ("0-1",),
    "begin-time": ("+0s", "+1h", "now", "yesterday", "x"),
    "broker-opts": ("-v",),
    "cc": ("0-2",),
    "cores": ("1", "4", "8", "16", "17", "0", "x"),
    "cores-per-slot": ("1", "2", "8", "9"),
    "cores-per-task": ("1", "2", "4", "8", "9", "0", "x"),
    "cwd": ("/", "/tmp", "/nowhere"),
    "dependency": ("afterany:1", "after:x", "singleton", "x:1"),
    "env": ("FOO=1", "HOME", "-FOO", "*"),
    "env-file": ("/nowhere",),
    "env-remove": ("FOO*", "/^FOO/", "HOME"),
    "error": ("/dev/null", "error-{{id}}.txt"),
    "exclusive": ("",),
    "flags": ("debug", "waitable", "novalidate", "x"),
    "gpus-per-node": ("0", "1", "2", "3"),
    "gpus-per-slot": ("0", "1", "2"),
    "gpus-per-task": ("0", "1", "2", "3", "8"),
    "job-name": ("x", "caf\u00e9", "a b"),
    "nodes": ("1", "2", "3", "4", "9", "0", "-1", "x"),
    "nslots": _COUNTS,
    "ntasks": _COUNTS,
    "output": ("/dev/null", "out-{{id}}.txt", "out-{{taskid}}.txt"),
    "queue": ("auto", "auto", "auto", "cpu", "gpu", "mig-1g.10gb", "closed", "stopped", "nowhere"),
    "requires": (
        "h200", "cpunode", "gpunode", "h200|cpunode", "not h200", "host:node0", "hosts:node[0-1]",
        "rank:0", "nothing", "x:y", "cpunode and not host:node1", "mig-1g.10gb",
    ),
    "resources-json": ("/nowhere",),
    "resources-shape": (
        "slot", "slot=4/core=2", "node/slot/core=2", "node=2/slot=2/core", "slot=2/[core=2;gpu]",
        "node{x}/slot/core=4", "slot=1-4/core", "slot/node", "x",
    ),
    "rlimit": ("-*", "core=0", "-*,core", "nofile", "x"),
    "setattr": (
        "x", "user.x=1", "user.note=berth", "system.queue=auto", "system.queue=5", "queue=gpu",
        "queue=closed", "system.duration=3600", "duration=-1", "duration=10000000",
        "user.berth.mode=false", "user.berth.mode=shadow", "user.berth.mode=advise", "user.berth=1",
        "user.berth.workload=5", "user.berth.decision=x", 'user.berth=["off"]', "user=1",
        'system.constraints.properties=["h200"]', 'constraints={"properties":["cpunode"]}',
        'constraints={"hostlist":["node1"]}', "constraints=[]", "constraints=5", "bank=3",
        "system.cwd=/", "system.job.name=3", "system.dependencies=[]", "system.x=1",
        "system.shell.options.x=1", "environment=5", "system.environment.BERTH_MODE=off",
        "system.files.script.data=x", ".version=1", ".x=1",
    ),
    "setopt": (
        "verbose", "x", "x=y", "mpi=none", "pmi=simple", "exit-timeout=none", "exit-on-error",
        "cpu-affinity=off", "cpu-affinity=per-task", "cpu-affinity=map:0-1", "cpu-affinity=x",
        "gpu-affinity=per-task", "gpu-affinity=off", "gpu-affinity=map:0;0", "nosetpgrp",
        "output.mode=append", "taskmap.scheme=cyclic", "per-resource.type=node",
        "per-resource.type=core", "rlimit.core=0", "hwloc.restrict", "signal=off",
        "output.stdout.buffer.type=none", "userrc=/nowhere", "initrc=/nowhere",
    ),
    "signal": ("USR1@1m", "@10s", "SIGTERM", "x"),
    "taskmap": (
        "block", "cyclic", "cyclic:2", "manual:[[0,1,4,1]]", "manual:[[0,1,1,1]]",
        "manual:[[0,2,2,1]]", "hostfile:/nowhere", "x",
    ),
    "tasks-per-core": ("1", "2", "0"),
    "tasks-per-node": ("1", "2", "8", "0"),
    "time-limit": ("1", "10", "90m", "1.5h", "2h", "3h", "1d", "inf", "0", "-1", "x", "30s"),
    "urgency": ("0", "16", "31", "hold", "default", "expedite", "32", "x"),
}  # fmt: skip
_OTHERWISE = (("N", ("1", "2", "0")), ("", ("x", "1")))
_TASK_SHAPES: Sequence[Sequence[str]] = (
    (), (), (), ("-n1",), ("-n2",), ("-n4",), ("-n4",), ("-n8",), ("-n4", "-c2"), ("-c4",),
    ("-N1", "-n2"), ("-N2", "-n4"), ("-N2",), ("-N1", "-n4", "-x"), ("-n1", "-g1"), ("-n2", "-g1"),
    ("--cores=4",), ("-N2", "--cores=8", "--tasks-per-node=2"), ("-n2", "-t", "30m"), ("-t", "3h"),
)  # fmt: skip
_SLOT_SHAPES: Sequence[Sequence[str]] = (
    ("-n1",), ("-n2",), ("-n4",), ("-n4", "-c2"), ("-N1",), ("-N2",), ("-N1", "-n2"),
    ("-n1", "-g1"), ("-n4", "-t", "30m"),
)  # fmt: skip
_PROFILES = ("stream",) * 7 + ("serial", "small")
Names = Mapping[str, Mapping[str, str]]


def option_names(flux: LiveFlux) -> dict[str, dict[str, str]]:
    """The long options of each command of this Flux, with what the help calls the value."""
    return {
        command: {
            name: value.strip("[]=")
            for name, value in _OPTION.findall(flux.run(command, "--help"))
            if name not in _LEFT_OUT
        }
        for command in sorted(set(COMMANDS))
    }


def asks(seed: int, count: int, names: Names, *, auto: bool = True) -> list[FluxAsk]:
    """``count`` jobs of ``seed``; ``names``: the options of each command."""
    made = random.Random(seed)  # noqa: S311 - reproducible, no secret
    return [_ask(made, names, auto) for _ in range(count)]


def _ask(made: random.Random, names: Names, auto: bool) -> FluxAsk:
    command = made.choice(COMMANDS)
    slots = command in {"batch", "alloc"}
    words = list(made.choice(_SLOT_SHAPES if slots else _TASK_SHAPES))
    words += random_options(made, names[command], VALUES, _OTHERWISE)
    if not any(word.startswith("--queue") for word in words):
        words += made.choice((("--queue=auto",),) * 9 + ((),)) if auto else ()
    if not auto:  # no such queue, so that the job would be refused as written
        words = [word for word in words if not word.endswith("queue=auto")]
    return FluxAsk(tuple(words), command=command, workload=made.choice(_PROFILES))
