"""Every job that Berth once broke on Flux, by name; a case is never removed.

``to_gpu`` says whether Berth is to move it to the GPU queue (None: either).
"""

from __future__ import annotations

from dataclasses import dataclass

from differential.cases import Broken, cases
from flux_differential.pairs import FluxAsk
from flux_differential.worlds import CLOSED, LIMITS, PLAIN, World


@dataclass(frozen=True)
class Case(Broken[World]):
    """As a user submits it to Flux."""

    command: str = "submit"

    @property
    def ask(self) -> FluxAsk:
        queue = () if any("queue" in word for word in self.words) else ("--queue=auto",)
        return FluxAsk((*queue, *self.words), command=self.command, workload=self.workload)


CASES = (
    *cases(
        Case,
        PLAIN,
        ("one task", "-n1", True),
        ("tasks in turns of two", "--cores=4 --taskmap=cyclic:2", False),
        ("tasks laid out by hand", "-n4 --taskmap=manual:[[0,2,2,1]]", False),
        ("tasks bound by hand", "-n2 --setopt=cpu-affinity=map:0;1", False),
        ("tasks in a block", "-n4 --taskmap=block", True),
        ("an unknown option of the shell", "-n4 --setopt=tool.ranks=4", False),
        ("resources by another way", "--setattr=system.alloc-bypass.R=x", None),
        ("an attribute that Flux ignores", "--setattr=system.site-wish=1", True),
        ("V8 mode that is no text", "--setattr=user.berth.mode=false", False),
        ("V8 several modes", '--setattr=user.berth.mode=["off"]', False),
        ("V8 a queue that is none", "--setattr=system.queue=5", None),
        ("whole nodes", "-N2", False),
        ("tasks of a node", "-N1 --tasks-per-node=2", True),
        ("a node by name", "--requires=host:node0", False),
        ("a property that GPU nodes have not", "--requires=cpunode", False),
        ("held", "--urgency=hold", True),
        ("later", "--begin-time=+1h", True),
        ("longer than the GPU queue allows", "-t 3h", False),
        ("several jobs at once", "--cc=0-2", True),
        ("without validation", "-n2 --flags=novalidate", True),
    ),
    Case("a nested instance", PLAIN, ("-n2",), True, command="batch"),
    Case("an allocation", PLAIN, ("-N1",), True, command="alloc"),
    *cases(
        Case,
        LIMITS,
        ("within the limits", "-n1", True),
        ("over the limit of GPUs", "-n2 -g1", None),
        ("over the limit of cores of the CPU queue", "-n8", None),
    ),
    Case("over the CPU queue's time", LIMITS, ("-n2", "-t", "1h"), None, workload="serial"),
    Case("under the least number of GPUs", LIMITS, ("-n2",), None, workload="small"),
    *cases(Case, CLOSED, ("the best queue takes no jobs", "-n2", False)),
    Case("the best queue starts none", CLOSED, ("-n1",), False, workload="small"),
)  # fmt: skip
