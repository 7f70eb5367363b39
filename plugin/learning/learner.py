"""One round of learning: turns outcomes into evidence, and updates the forecasts that the evidence
changes.

The result depends only on the store's content, in the order of the jobs' ends: two daemons that
learn at the same time compute the same, and the second stores nothing. A user's jobs change that
user's forecasts only. The jobs of a shared workload's owner change everybody's forecasts of that
workload; so do all users' jobs where the site trusts all users (``learning.everybody``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from berth.pilot.progress import is_shown, report, steps
from berth.pilot.units import format_moment
from berth.plugin.learning.counted import COUNTED, LearningUse, looked_at
from berth.plugin.learning.scope import EVERYBODY, LearningScope, Scopes, StoreReader
from berth.plugin.store.learning import LOOKED_BACK_S
from berth.plugin.store.records import LearntRecord, PlacedRun
from berth.plugin.store.store import Store
from berth.predictor.learning.learnt import learnt_forecast
from berth.predictor.learning.site_history import DetectedChange, SiteHistory

BATCH = 10_000
"""Maximum number of jobs that one round reads; later rounds read the rest, and the last one updates
the forecasts."""
_TRIES = 5
_LOOKED_AT = "ended jobs looked at"
MOST_FORECASTS = 400
"""Maximum number of forecasts that one round updates; later rounds update the others."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """The result of a round of learning."""

    jobs: int
    """Number of finished jobs read."""
    used: int
    """Number of those jobs that learning uses."""
    forecasts: tuple[tuple[str, str], ...]
    """Pairs of workload and user (empty: all users) whose forecasts were updated."""
    notices: tuple[str, ...]
    """Sentences on changes of run times noticed at the site."""
    more: bool
    """Whether jobs or forecasts are left for a further round."""
    stored: bool = True
    """False: another daemon stored its round first, and this round was discarded."""


class Learner:
    """Runs rounds of learning on a store. Not safe to share between threads."""

    def __init__(
        self,
        store: Store,
        *,
        everybody: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``everybody``: the jobs of every user change the forecasts of all users."""
        self._store = store
        self._everybody = everybody
        self._clock = clock

    def round(self, *, all_of_them: bool = False) -> Learnt:
        """Read the newly finished jobs, and update the forecasts of the users whose jobs they were.

        All forecasts with evidence are checked if ``all_of_them`` is set, if a new job counts for
        all users or was looked at before, or if the store has changed in other ways since the last
        check.
        """
        now_s = self._clock()
        learning, stored = self._store.learning, StoreReader(self._store)
        checked = learning.checked(everybody=self._everybody)
        pending = learning.pending(now_s - LOOKED_BACK_S, BATCH)
        if not pending and checked.all and not all_of_them:
            return Learnt(0, 0, (), (), more=False)
        fresh = self._looked_at(pending, stored, now_s)
        shared = LearningScope(stored, EVERYBODY, everybody=self._everybody)
        check_all = (
            all_of_them
            or any(record.seen_end_s is not None for record in fresh)
            or not checked.all
            or any(shared.counts_for_all(record) for record in fresh)
        )
        readers = {r.user for r in fresh if r.use in COUNTED}
        if check_all:
            readers |= stored.users
        scopes = self._scopes(stored, readers)
        scopes.begin(fresh)
        learnt: list[LearntRecord] = []
        more = len(pending) == BATCH
        if not more:
            complete = (
                self._forecasts(s, stored.inputs, now_s, learnt) for s in scopes.of.values()
            )
            more = not all(complete)
        done = None if more else checked
        scored = [
            replace(r, score=scopes.scores.get((r.cluster, r.job_id), r.score)) for r in fresh
        ]
        if not learning.put(scored, learnt, checked=done):
            return Learnt(0, 0, (), (), more=True, stored=False)
        return Learnt(
            len(pending),
            sum(record.use in COUNTED for record in fresh),
            tuple((record.workload, record.user) for record in learnt),
            _noticed(scopes, min((r.end_s or 0.0 for r in fresh), default=now_s)),
            more=more,
        )

    def _scopes(self, stored: StoreReader, readers: Iterable[str]) -> Scopes:
        wanted = (*(() if self._everybody else sorted(readers)), EVERYBODY)
        return Scopes(stored, wanted, everybody=self._everybody)

    def without(self, job_id: str) -> list[str]:
        """Exclude a job from learning permanently, and return the names of the workloads whose
        forecasts must be updated."""
        return self._store.learning.set_use(job_id, LearningUse.BY_HAND.value)

    def rebuild(self) -> Learnt:
        """Delete all evidence, except for exclusions by an admin, and learn again from the
        stored outcomes."""
        self._store.learning.clear(LearningUse.BY_HAND.value, self._clock() - LOOKED_BACK_S)
        return self.until_done()

    def until_done(self) -> Learnt:
        """Run rounds until no work is left, or until other daemons were faster ``_TRIES`` times
        in a row; return the totals."""
        waiting = 0
        if is_shown():
            waiting = self._store.learning.count_pending(self._clock() - LOOKED_BACK_S)
        total, beaten = Learnt(0, 0, (), (), more=True), 0
        while total.more and beaten < _TRIES:
            report(_LOOKED_AT, total.jobs, waiting)
            learnt_round = self.round(all_of_them=total.jobs > 0)
            beaten = 0 if learnt_round.stored else beaten + 1
            total = Learnt(
                total.jobs + learnt_round.jobs,
                total.used + learnt_round.used,
                tuple(dict.fromkeys((*total.forecasts, *learnt_round.forecasts))),
                tuple(dict.fromkeys((*total.notices, *learnt_round.notices))),
                more=learnt_round.more,
            )
        report(_LOOKED_AT, waiting, waiting)
        return total

    def _looked_at(
        self, pending: Sequence[PlacedRun], stored: StoreReader, now_s: float
    ) -> list[PlacedRun]:
        """Return each run with how learning uses it."""
        decisions = self._store.decisions.inputs({o.decision for o in pending if o.decision})
        return [
            looked_at(
                outcome,
                decisions.get(outcome.decision or ""),
                stored.workload(outcome.workload or ""),
                stored.forecast(outcome.workload or ""),
                now_s=now_s,
            )
            for outcome in pending
        ]

    @staticmethod
    def _forecasts(
        scope: LearningScope,
        known: Mapping[tuple[str, str], str],
        now_s: float,
        learnt: list[LearntRecord],
    ) -> bool:
        """Add to ``learnt`` the forecasts whose inputs differ from ``known``; return False where
        ``MOST_FORECASTS`` was reached."""
        for workload in steps("workloads looked at", scope.workloads()):
            if len(learnt) >= MOST_FORECASTS:
                return False
            inputs = scope.inputs(workload)
            user = scope.user_of(workload)
            if known.get((workload, user)) == inputs:
                continue
            base = scope.forecast(workload)
            runs = scope.history.runs(workload)
            forecast = learnt_forecast(base, runs, scope.history.standing(workload))
            learnt.append(
                LearntRecord(workload, user, forecast.to_json(), inputs, len(runs), now_s)
            )
        return True


def _noticed(scopes: Scopes, since_s: float) -> tuple[str, ...]:
    sentences = (text for s in scopes.of.values() for text in notices(s.history, since_s))
    return tuple(dict.fromkeys(sentences))


def notices(history: SiteHistory, since_s: float) -> list[str]:
    """Return sentences on changes of run times that were noticed by jobs which ended after the
    Unix time ``since_s``."""
    return [sentence(change) for change in history.changes if change.noticed_s >= since_s]


def sentence(change: DetectedChange) -> str:
    """Return one change of run times as a sentence."""
    kind = "platform" if change.is_platform else "workload"
    way = "longer" if change.slower else "shorter"
    moment = format_moment(change.since_s)
    return (
        f"{kind} {change.name}: jobs take clearly {way} than before since {moment} (noticed after "
        f"{change.jobs} jobs); what was learnt before counts less"
    )
