"""Jobs sent to a list of partitions, against one pinned partition and against all of them.

The site and the jobs are fixed by rule: arrivals and run times of RICC, kinds and throughputs of
Gavel's jobs, as many GPUs of each device as keep four fifths of them busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.plugin.cli.output.step_bar import step_bar
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Option,
    Partition,
    Present,
    Replayed,
    Settings,
    Trace,
    replay,
    trace_of,
)
from berth.policies.settings import ListBy, PolicySettings, Weights
from berth.policies.tuning.replayed import TraceReplayer
from berth.policies.tuning.replayer import Part
from berth.policies.values import Candidate
from lab.datasets import locate, ricc
from lab.datasets.gavel import DEVICES, THROUGHPUTS, throughputs
from lab.experiments.gavel_placement import KNOWN, Floats, left_out_rates
from lab.experiments.options import Options
from lab.ground.report import Report, Section

JOBS = 20_000
TRAIN = 0.4
"""Part of the time on which the factor is chosen; figures are of the later jobs."""
LOAD = 0.8
GPU_SHARES = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}
"""As Gavel draws its jobs (Narayanan et al., OSDI 2020)."""
SHORTEST_S, LONGEST_S = 60.0, 86_400.0
"""RICC's run times are taken within these, as times on a v100."""
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
SPREAD = 1.5
"""Upper end over middle of predicted times: their errors on devices left out."""
BAR = 0.10


@dataclass(frozen=True)
class Site:
    """Jobs with true and predicted times by device, and GPUs of each device."""

    trace: Trace
    predicted: Mapping[str, Floats]
    gpus: int


@dataclass(frozen=True)
class AllPartitions:
    """A Placement that lists every partition."""

    trace: Trace

    def place(self, job: int, present: Present) -> Sequence[Option]:
        """See Placement; ``present`` is not looked at."""
        gpus = int(self.trace.gpus[job])
        times = [float(self.trace.runtime_on[device][job]) for device in DEVICES]
        order = np.argsort(times)
        return [
            Option(int(at), 0, 1, gpus, 0, times[at], times[at] * SPREAD, np.inf) for at in order
        ]


def evaluate(options: Options) -> Report:
    """Mean time to the end and 99th percentile of the wait by how jobs are submitted."""
    site = site_of(options.seed)
    span_s = float(site.trace.submit_s[-1] - site.trace.submit_s[0])
    train = site.trace.submit_s < site.trace.submit_s[0] + TRAIN * span_s
    found: dict[str, Replayed] = {}
    with step_bar("replays", len(FACTORS) + 3) as advance:
        for factor in FACTORS:
            found[f"list, factor {factor:g}"] = _listed(site, factor)
            advance()
        found["list, by start"] = _listed(site, 1.0, list_by=ListBy.START)
        advance()
        fastest = _listed(site, 1.0, "fastest")
        advance()
        found["all partitions"] = _everywhere(site)
        advance()
    pinned = found.pop("list, factor 1")
    best_list = min(
        (name for name in found if name.startswith("list")),
        key=lambda name: _mean(_finish_s(found[name])[train]),
    )
    listed = {name: done for name, done in found.items() if name.startswith("list")}
    chosen = {
        "one, predicted to end first": pinned,
        "one, predicted fastest": fastest,
        "all partitions": found["all partitions"],
        **{f"{name} (chosen)" if name == best_list else name: listed[name] for name in listed},
    }
    best = _mean(_finish_s(found[best_list])[~train])
    rows, data = [], {}
    for name, done in chosen.items():
        finish, wait = _finish_s(done)[~train], done.wait_s[~train]
        data[name] = {"finish_s": _mean(finish), "p99_wait_s": float(np.nanquantile(wait, 0.99))}
        rows.append(
            (
                name,
                f"{_mean(finish) / 3600:.2f} h",
                f"{best / _mean(finish) - 1:+.1%}",
                f"{_mean(wait) / 3600:.2f} h",
                f"{np.nanquantile(wait, 0.99) / 3600:.2f} h",
            )
        )
    return Report(
        "Lists of partitions: RICC's arrivals on Gavel's devices",
        (
            f"{len(site.trace):,} jobs on {site.gpus} GPUs each of {', '.join(DEVICES)}; placed by "
            f"times predicted with each job type left out, its throughput on a {KNOWN} known; "
            f"waits by a look-ahead. The list is chosen on the first {TRAIN:.0%} of the time, "
            "figures are of the rest. By start: places where the job runs no longer than at the "
            "one where it is to end first, but for as much as it is to start later there.",
            f"Bar: mean time to the end at least {BAR:.0%} better than one pinned partition and "
            "than all, 99th percentile of the wait not worse.",
        ),
        (
            Section(
                "Later jobs",
                ("submitted to", "mean finish", "the list's to it", "mean wait", "p99 wait"),
                rows,
            ),
        ),
        data=data,
    )


def site_of(seed: int) -> Site:
    """Fixed by rule and seed, before any policy is looked at."""
    dice = np.random.default_rng(seed)
    jobs = ricc.trace()[np.arange(JOBS)]
    rates = dict(throughputs(locate(THROUGHPUTS)))
    kinds = {n: [key for key, rate in rates.items() if key[1] == n and np.all(rate > 0)]
             for n in GPU_SHARES}  # fmt: skip
    sizes = [n for n in GPU_SHARES if kinds[n]]
    shares = np.array([GPU_SHARES[n] for n in sizes])
    gpus = dice.choice(sizes, size=len(jobs), p=shares / shares.sum())
    keys = [kinds[n][dice.integers(len(kinds[n]))] for n in gpus.tolist()]
    at = DEVICES.index(KNOWN)
    run = np.clip(jobs.runtime_s, SHORTEST_S, LONGEST_S)
    rate = np.array([rates[key] for key in keys])
    guess = {key: left_out_rates(key, rates) for key in set(keys)}
    guessed = np.array([guess[key] for key in keys])
    true, predicted = (run[:, None] * r[:, [at]] / r for r in (rate, guessed))
    # As if a third of the jobs ran on each device.
    busy = float((true.mean(axis=1) * gpus).sum()) / float(jobs.submit_s[-1] - jobs.submit_s[0])
    each = int(np.ceil(busy / LOAD / len(DEVICES)))
    trace = trace_of(
        jobs.submit_s, true[:, at], np.ones(len(jobs), np.int64), gpus=gpus, user=jobs.user,
        queue=np.full(len(jobs), at), queues=DEVICES,
    )  # fmt: skip
    columns = {device: true[:, i] for i, device in enumerate(DEVICES)}
    return Site(
        replace(trace, runtime_on=columns),
        {device: predicted[:, i] for i, device in enumerate(DEVICES)},
        max(each, *sizes),
    )


def _cluster(site: Site) -> Cluster:
    return Cluster(
        tuple(NodeKind(name, 1, site.gpus, site.gpus) for name in DEVICES),
        tuple(Partition(name, (name,)) for name in DEVICES),
        pooled=True,
    )


_SETTINGS = Settings(Backfill.EASY, kill_at_limit=False)


def _listed(
    site: Site, factor: float, objective: str = "earliest", list_by: ListBy = ListBy.SCORE
) -> Replayed:
    candidates = tuple(
        Candidate(
            name, name, name, gres="gpu", gpus_per_node=site.gpus, gpu_memory_bytes=2**40,
            cores_per_node=site.gpus, nodes=1, targets=("cuda",),
        )
        for name in DEVICES
    )  # fmt: skip
    policy = PolicySettings(
        objective, list_queues=True, alike_within=factor, max_interval_ratio=1e9,
        list_by=list_by,
        weights=Weights(wait=0.0),
    )  # fmt: skip
    of = {name: index for index, name in enumerate(DEVICES)}
    replayer = TraceReplayer(
        site.trace, _cluster(site), _SETTINGS, candidates, of, predicted=site.predicted,
        spread=SPREAD, lookahead=True,
    )  # fmt: skip
    return replayer.replayed(policy, Part(0.0, replayer.span_s + 1.0))


def _everywhere(site: Site) -> Replayed:
    return replay(site.trace, _cluster(site), _SETTINGS, AllPartitions(site.trace))


def _finish_s(done: Replayed) -> Floats:
    return np.asarray(done.end_s - done.trace.submit_s)


def _mean(values: Floats) -> float:
    return float(np.nanmean(values))
