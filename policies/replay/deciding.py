"""The production Decider in the loop: each job is placed at its submission, as the daemon would.

What is predicted comes from a ``Predictions``, what then happens from the trace: its run times by
platform, and where the job ran in fact its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from berth.pilot.errors import BerthError, UsageError
from berth.policies.decide import Decider
from berth.policies.objectives.throughput_fair import ThroughputFair
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.placement import Option, Present
from berth.policies.replay.predicted import Predictions
from berth.policies.replay.seen import Seen
from berth.policies.replay.trace import Trace
from berth.policies.settings import PolicySettings
from berth.policies.values import (
    Candidate,
    Decision,
    Ranked,
    Request,
    Resources,
)

STATES_S = 15.0
"""Age from which the candidates' states are read again, as the daemon does."""


class Decided:
    """A Placement by a policy. ``partition_of``: the partition that each candidate is."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        partition_of: Mapping[str, int],
        settings: PolicySettings,
        predictions: Predictions,
        *,
        trace: Trace,
        cluster: Cluster,
        states_s: float = STATES_S,
        lookahead: bool = False,
    ) -> None:
        """``lookahead``: waits from the predicted ends of jobs at each submission."""
        self._decider = Decider(candidates, settings, identified=False)
        self._by_name = {candidate.name: candidate for candidate in candidates}
        self._partition_of = partition_of
        self._predictions = predictions
        self._trace = trace
        self._seen = Seen(
            candidates, partition_of, trace, cluster, every_s=states_s, lookahead=lookahead,
            shares=self._decider.objective.name == ThroughputFair.name,
        )  # fmt: skip
        self._requests = _requests(trace)
        self._here = _own_platforms(trace, cluster)
        self._truths = {name: column.tolist() for name, column in trace.runtime_on.items()}
        self._at_home = trace.runtime_s.tolist()

    def place(self, job: int, present: Present) -> Sequence[Option] | None:
        """See Placement. Raises UsageError where the policy fails."""
        states, request = self._seen.now(present), self._requests[job]
        forecast = self._predictions.forecast(job)
        try:
            decision = self._decider.decide(request, states, forecast, present.now_s)
        except BerthError:
            raise
        except Exception as error:
            name = self._decider.settings.objective
            raise UsageError(
                f"policy {name} failed on job {self._name(job)}: {type(error).__name__}: {error}",
                hint="it fails so in production, too: run it on this job alone",
            ) from error
        if decision.chosen is None:
            return None
        found = self._options(job, request, decision)
        if found:
            expected = decision.ranked[0].runtime_s
            self._seen.placed(job, found[0], expected.mid if expected else 0.0, present.now_s)
        return found

    def _options(self, job: int, request: Request, decision: Decision) -> list[Option]:
        """Where the job may start; empty: nobody knows how long it runs there."""
        edit = decision.edit
        queues = () if edit is None or edit.queue is None else edit.queue.split(",")
        found: list[Option] = []
        for number in range(max(len(queues), 1)):
            row = decision.ranked[0] if number == 0 else _in_queue(
                decision.ranked, queues[number], self._by_name
            )  # fmt: skip
            truth = math.nan if row is None else self._truth(job, self._by_name[row.candidate])
            if row is None or math.isnan(truth):
                if number == 0:
                    return []
                continue
            limit = request.time_limit_s if edit is None else edit.time_limit_s
            limit = limit or request.time_limit_s or math.inf
            part = self._partition_of[row.candidate]
            if any(option.partition == part for option in found):
                continue
            held, predicted = row.resources, row.runtime_s
            planned = limit if predicted is None or math.isfinite(limit) else predicted.high
            found.append(
                Option(
                    part, held.nodes, held.cores, held.gpus, held.memory_bytes_per_node or 0,
                    truth, planned, limit,
                )
            )  # fmt: skip
        return found

    def _truth(self, job: int, candidate: Candidate) -> float:
        column = self._truths.get(candidate.platform)
        known = math.nan if column is None else column[job]
        if math.isnan(known) and self._here[job] == candidate.platform:
            known = self._at_home[job]
        return known

    def _name(self, job: int) -> str:
        return self._trace.ids[job] if self._trace.ids else str(job)


def _in_queue(
    ranked: Sequence[Ranked], queue: str, candidates: Mapping[str, Candidate]
) -> Ranked | None:
    fits = (row for row in ranked if row.score is not None)
    return next((row for row in fits if candidates[row.candidate].queue == queue), None)


def _requests(trace: Trace) -> list[Request]:
    """[jobs] as if each had asked Berth to choose."""
    limits = np.where(np.isnan(trace.limit_s), 0.0, trace.limit_s).tolist()
    return [
        Request(
            user=trace.users[user] if trace.users else str(user),
            account=(trace.accounts[account] or None) if trace.accounts else None,
            resources=Resources(max(nodes, 0), max(cores, 1), 1, gpus, memory or None),
            gres=f"gpu:{gpus}" if gpus else None,
            profile="job",
            queue=trace.queues[queue] if queue >= 0 and trace.queues else None,
            wants_placement=True,
            time_limit_s=limit or None,
        )
        for user, account, queue, nodes, cores, gpus, memory, limit in zip(
            *(
                column.tolist()
                for column in (
                    trace.user, trace.account, trace.queue, trace.nodes, trace.cores, trace.gpus,
                    trace.memory_bytes,
                )
            ),
            limits,
            strict=True,
        )
    ]  # fmt: skip


def _own_platforms(trace: Trace, cluster: Cluster) -> list[str]:
    """[jobs] the platform that each ran on; empty: its partition has several, or is unknown."""
    kinds = {
        part.name: {cluster.kind(name).platform or name for name in part.kinds}
        for part in cluster.partitions
    }
    by_queue = [
        next(iter(found)) if len(found := kinds.get(queue, set())) == 1 else ""
        for queue in trace.queues
    ]
    return [by_queue[queue] if queue >= 0 else "" for queue in trace.queue.tolist()]
