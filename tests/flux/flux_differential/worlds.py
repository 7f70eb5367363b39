"""Instances to submit to (limits, closed and stopped queues, none at all) and their daemons."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from berth_daemon import wait_until
from flux_daemon import flux_harbour
from flux_instance import QUEUES, LiveFlux, frobnicators, live_flux

from berth.plugin.flux.filter import FILTER_PATH

MORE_QUEUES = """\
[queues.closed]
requires = ["cpunode"]
[queues.stopped]
requires = ["cpunode"]
"""
FEASIBILITY = """\
[ingest.validator]
plugins = ["jobspec", "feasibility"]
"""
"""Flux refuses at once what no node has, as many sites set it; else it fails such jobs later."""


@dataclass(frozen=True)
class World:
    """One instance: its queues, limits and validators, and what its site file says besides."""

    name: str
    queues: str = QUEUES + MORE_QUEUES
    extra: str = ""
    commands: tuple[tuple[str, ...], ...] = (
        ("queue", "disable", "closed"),
        ("queue", "stop", "stopped"),
    )
    site: tuple[tuple[str, str], ...] = ()
    """Replacements in the site file's text."""

    @property
    def auto(self) -> bool:
        """Whether there is a queue called ``auto``."""
        return "[queues.auto]" in self.queues


PLAIN = World("plain")
LIMITS = World(
    "limits",
    extra=FEASIBILITY
    + """\
[queues.gpu.policy.jobspec.defaults.system]
duration = "1m"
[queues.gpu.policy.limits.job-size.max]
nnodes = 1
ncores = 4
ngpus = 1
[queues."mig-1g.10gb".policy.limits.job-size.min]
ngpus = 1
[queues.cpu.policy.limits]
duration = "45m"
[queues.cpu.policy.limits.job-size.max]
ncores = 6
[policy.limits]
duration = "1d"
""",
)
KEEP = World("keep-tasks", site=(("cpus_per_gpu = 2", "cpus_per_gpu = 2\nkeep_tasks = true"),))
CLOSED = World(
    "closed",
    extra=FEASIBILITY,
    commands=(
        ("queue", "disable", "gpu"),
        ("queue", "stop", "mig-1g.10gb"),
        ("queue", "stop", "old"),
    ),
)
"""The best places take no jobs, or start none."""
ANONYMOUS = World(
    "anonymous",
    queues='[policy.jobspec.defaults.system]\nduration = "10m"\n',
    commands=(),
    site=(
        ('queue = "cpu"', 'queue = "anonymous"\nconstraint = "cpunode"'),
        ('queue = "old"', 'queue = "anonymous"\nconstraint = "gpunode&h200"'),
        ('queue = "gpu"', 'queue = "anonymous"\nconstraint = "gpunode"'),
        ('queue = "mig-1g.10gb"', 'queue = "anonymous"\nconstraint = "mig-1g.10gb"'),
    ),
)
WORLDS = (PLAIN, LIMITS, KEEP, CLOSED, ANONYMOUS)


@contextlib.contextmanager
def open_world(world: World) -> Iterator[LiveFlux]:
    """An instance with the filter and a daemon that enforces."""
    with flux_harbour() as harbour:
        settings = harbour.settings(deadline_ms=1000)
        ingest = frobnicators(str(FILTER_PATH), **settings)
        with live_flux(ingest, queues=world.queues, extra=world.extra) as flux:
            for words in world.commands:
                flux.run(*words)
            harbour.uri = flux.uri
            text = harbour.site_file.read_text()
            for before, after in world.site:
                assert before in text, before
                text = text.replace(before, after)
            harbour.site_file.write_text(text)
            daemon = harbour.start()
            wait_until(lambda: daemon.ask(op="ping")["mode"] == "enforce")
            yield flux
