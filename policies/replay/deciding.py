"""Use the daemon's Decider as placement policy: each job is placed at its submission, as in
production.

Predictions come from a ``TraceForecasts`` object. The true run times come from the trace: its run
times by platform and, on the job's own platform, its recorded run time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from berth.pilot.errors import BerthError, UsageError
from berth.policies.decide import Decider
from berth.policies.ranking import Assessments
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.placement import Option, Present
from berth.policies.replay.predicted import TraceForecasts
from berth.policies.replay.seen import SeenStates
from berth.policies.replay.trace import Trace
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Decision, Edit, Ranked, Request, Resources

SHAPES_KEPT = 20_000
"""Number of rankings that a replay caches, one per workload and resource request."""
STATES_S = 15.0
"""Age in seconds at which the candidates' states are refreshed, as in the daemon."""


class Decided:
    """A Placement by a site policy; ``partition_of``: index of each candidate's partition."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        partition_of: Mapping[str, int],
        settings: PolicySettings,
        predictions: TraceForecasts,
        *,
        trace: Trace,
        cluster: Cluster,
        lookahead: bool = False,
        forgiving: bool = False,
        unscored: Assessments | None = None,
        requests: Sequence[Request] | None = None,
    ) -> None:
        """Decide as the site's policy does.

        ``lookahead``: expected waits from the predicted ends of jobs, updated at each submission.
        ``forgiving``: a job on which the policy raises an error stays in its partition, as in
        production, and is recorded in ``failed``. ``unscored`` as for Decider, and ``requests`` of
        the trace (``requests_of``): what replays of one trace by several policies share.
        """
        decider = Decider(
            candidates, settings, explains=False, shapes_kept=SHAPES_KEPT, unscored=unscored
        )
        self._decider = decider
        self._policy = settings.objective
        self._by_name = {candidate.name: candidate for candidate in candidates}
        self._partition_of = partition_of
        self._predictions = predictions
        self._trace = trace
        self._seen = SeenStates(
            candidates, partition_of, cluster, every_s=STATES_S, lookahead=lookahead,
        )  # fmt: skip
        self._requests = requests_of(trace) if requests is None else requests
        self._own_platform = own_platforms(trace, cluster)
        self._truths = {name: column.tolist() for name, column in trace.runtime_on.items()}
        self._own_runtime_s = trace.runtime_s.tolist()
        self._forgiving = forgiving
        self.failed: dict[int, str] = {}
        """The policy's error by row of the job."""

    def place(self, job: int, present: Present) -> Sequence[Option] | None:
        """Return the options of a job by the policy's decision; None: the job stays in its
        partition.

        Empty: the true run time at the policy's choice is unknown. Raises UsageError where the
        policy fails and ``forgiving`` is not set.
        """
        states, request = self._seen.now(present), self._requests[job]
        forecast = self._predictions.forecast(job)
        try:
            decision = self._decider.decide(request, states, forecast, present.now_s)
        except BerthError:
            raise
        except Exception as error:
            if self._forgiving:
                self.failed[job] = f"job {self._name(job)}: {type(error).__name__}: {error}"
                return None
            raise UsageError(
                f"policy {self._policy} failed on job {self._name(job)}: "
                f"{type(error).__name__}: {error}",
                hint="it fails so in production, too: run it on this job alone",
            ) from error
        if decision.edit is None:
            return None
        options = self._options(job, request, decision, decision.edit)
        if options:
            expected = decision.ranked[0].runtime_s
            self._seen.placed(options[0], expected.mid if expected else 0.0, present.now_s)
        return options

    def same_at(self, moment_s: float) -> bool:
        """Return whether the candidates' states at that moment would be the same as at the last
        placement."""
        return self._seen.same_at(moment_s)

    def _options(self, job: int, request: Request, decision: Decision, edit: Edit) -> list[Option]:
        """Return the options of a placed job; empty where the true run time on the best one is
        unknown."""
        options: list[Option] = []
        limit = edit.time_limit_s or request.time_limit_s or math.inf
        best = decision.ranked[0]
        for ranked in self._listed(decision, edit):
            truth = self._truth(job, self._by_name[ranked.candidate])
            if math.isnan(truth):
                if ranked is best:
                    return []
                continue
            part = self._partition_of[ranked.candidate]
            if any(option.partition == part for option in options):
                continue
            held, predicted = ranked.resources, ranked.runtime_s
            if ranked is best and edit.resources is not None:
                held = edit.resources
            planned = limit if predicted is None or math.isfinite(limit) else predicted.high
            options.append(
                Option(
                    part, held.nodes, held.cores, held.gpus, held.memory_bytes_per_node or 0,
                    truth, planned, limit,
                )
            )  # fmt: skip
        return options

    def _listed(self, decision: Decision, edit: Edit) -> list[Ranked]:
        """Return the first candidate of each queue of the job's list, in the list's order; without
        a list the best one."""
        queues = [] if edit.queue is None else edit.queue.split(",")
        fitting = [ranked for ranked in decision.ranked if ranked.excluded is None]
        listed = [
            next(each for each in fitting if self._by_name[each.candidate].queue == queue)
            for queue in queues
        ]
        return listed or [decision.ranked[0]]

    def _truth(self, job: int, candidate: Candidate) -> float:
        column = self._truths.get(candidate.platform)
        known = math.nan if column is None else column[job]
        if math.isnan(known) and self._own_platform[job] == candidate.platform:
            known = self._own_runtime_s[job]
        return known

    def _name(self, job: int) -> str:
        return self._trace.ids[job] if self._trace.ids else str(job)


def requests_of(trace: Trace) -> list[Request]:
    """Return [jobs] requests as if each job had asked Berth for placement; equal ones share one
    object."""
    limits = np.where(np.isnan(trace.limit_s), 0.0, trace.limit_s)
    columns = (
        trace.user, trace.account, trace.queue, trace.nodes, trace.cores, trace.gpus,
        trace.memory_bytes, limits,
    )  # fmt: skip
    known: dict[tuple[Any, ...], Request] = {}
    requests = []
    for row in zip(*(column.tolist() for column in columns), strict=True):
        if row not in known:
            known[row] = _request(trace, *row)
        requests.append(known[row])
    return requests


def _request(trace: Trace, user: int, account: int, queue: int, *asked: Any) -> Request:
    nodes, cores, gpus, memory, limit = asked
    return Request(
        user=trace.users[user] if trace.users else str(user),
        account=(trace.accounts[account] or None) if trace.accounts else None,
        resources=Resources(max(nodes, 0), max(cores, 1), 1, gpus, memory or None),
        gres=f"gpu:{gpus}" if gpus else None,
        workload="job",
        queue=trace.queues[queue] if queue >= 0 and trace.queues else None,
        wants_placement=True,
        time_limit_s=limit or None,
    )


def own_platforms(trace: Trace, cluster: Cluster) -> list[str]:
    """Return [jobs] the platform that each job ran on; empty: unknown, or its partition has
    several."""
    kinds = {
        part.name: {cluster.kind(name).platform or name for name in part.kinds}
        for part in cluster.partitions
    }
    by_queue = [
        next(iter(platforms)) if len(platforms := kinds.get(queue, set())) == 1 else ""
        for queue in trace.queues
    ]
    return [by_queue[queue] if queue >= 0 else "" for queue in trace.queue.tolist()]
