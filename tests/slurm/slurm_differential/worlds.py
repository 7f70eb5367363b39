"""Sites to submit to: partitions with limits, accounts with limits, a daemon that places jobs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from real_daemon import RealDaemon, real_daemon
from slurm_cluster import Cluster, cluster, wait_until

from berth.plugin.slurm.filter import CLIENT_FILTER_PATH, FILTER_PATH

CHAINED = 'dofile("{filter}")\nreturn slurm.SUCCESS\n'


@dataclass(frozen=True)
class World:
    """One site: what its slurm.conf, its accounting and its site file say beyond the usual."""

    name: str
    conf: tuple[str, ...] = ()
    """Lines added to slurm.conf."""
    partitions: tuple[tuple[str, str], ...] = ()
    """Words added to a partition's line, by its name."""
    accounting: tuple[tuple[str, ...], ...] | None = None
    """``sacctmgr`` commands; None: no slurmdbd."""
    qualities: tuple[str, ...] = ()
    """QOS that partitions name."""
    site: tuple[tuple[str, str], ...] = ()
    """Replacements in the site file's text."""

    client: bool = True
    """sbatch, srun and salloc load Berth's client filter."""

    def amend(self, files: dict[str, str]) -> dict[str, str]:
        text = files["slurm.conf"]
        for name, words in self.partitions:
            text = re.sub(
                rf"^(PartitionName={name} .*)$", rf"\g<1> {words}", text, flags=re.MULTILINE
            )
        lines = (*self.conf, *(("CliFilterPlugins=lua",) if self.client else ()))
        files = {**files, "slurm.conf": text + "".join(f"{line}\n" for line in lines)}
        if self.client:
            files["cli_filter.lua"] = CLIENT_FILTER_PATH.read_text()
        return files


@contextlib.contextmanager
def open_world(world: World) -> Iterator[Cluster]:
    """A cluster with the filter and a daemon that enforces."""
    with cluster(
        amend=world.amend, database=None if world.accounting is None else world.qualities
    ) as slurm:
        for words in world.accounting or ():
            slurm.run("sacctmgr", "-i", *words)
        slurm.set_filter_config(
            socket=slurm.berth_socket,
            kill_switch=slurm.root / "run" / "off",
            deadline_ms=1000,  # the most there is: to be heard however busy the machine is
            reread_config_s=0,
        )
        slurm.set_job_submit(CHAINED.format(filter=FILTER_PATH))
        with placing(slurm, world.site):
            yield slurm


@contextlib.contextmanager
def placing(slurm: Cluster, replaced: Sequence[tuple[str, str]] = ()) -> Iterator[RealDaemon]:
    """A daemon that enforces, over the usual site file with ``replaced`` put in."""

    def changed(text: str) -> str:
        for before, after in replaced:
            assert before in text, before
            text = text.replace(before, after)
        return text

    with real_daemon(slurm, amend=changed) as daemon:
        wait_until(daemon.is_ready, "berth serve is ready", 60)
        yield daemon
