"""Sites to submit to: partitions with limits, accounts with limits, a daemon that places jobs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from real_daemon import FORECASTS, RealDaemon, real_daemon
from slurm_cluster import Cluster, cluster, wait_until

from berth.plugin.slurm.filter import CLIENT_FILTER_PATH, FILTER_PATH
from berth.predictor.core.forecast import Forecast

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
    layout: type[Cluster] = Cluster
    """Nodes and partitions."""
    edit_files: Callable[[dict[str, str]], dict[str, str]] = dict
    """What changes in Slurm's configuration files before anything else does."""
    site_text: str | None = None
    """A site file in place of the usual one, with ``{root}`` in it."""
    forecasts: tuple[Forecast, ...] = FORECASTS
    """What the daemon knows."""

    def amend(self, files: dict[str, str]) -> dict[str, str]:
        files = self.edit_files(files)
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
        world.layout,
        amend=world.amend,
        database=None if world.accounting is None else world.qualities,
    ) as slurm:
        for words in world.accounting or ():
            slurm.run("sacctmgr", "-i", *words)
        slurm.set_filter_config()
        slurm.set_job_submit(CHAINED.format(filter=slurm.copied(FILTER_PATH)))
        with placing(slurm, world.site, world.site_text, world.forecasts):
            yield slurm


@contextlib.contextmanager
def placing(
    slurm: Cluster,
    replaced: Sequence[tuple[str, str]] = (),
    site_text: str | None = None,
    forecasts: Sequence[Forecast] = FORECASTS,
) -> Iterator[RealDaemon]:
    """A daemon that enforces, by the usual site file or ``site_text``, with ``replaced`` put in."""

    def changed(text: str) -> str:
        if site_text is not None:
            text = site_text.format(root=slurm.root)
        text = text.replace('[fit]\nmode = "off"', "[fit]")  # also jobs that only fit are moved
        for before, after in replaced:
            assert before in text, before
            text = text.replace(before, after)
        return text

    with real_daemon(slurm, amend=changed, forecasts=forecasts) as daemon:
        wait_until(daemon.is_ready, "berth serve is ready", 60)
        yield daemon
