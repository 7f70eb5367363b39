"""The search of a tune: trials of settings, each a replay of the training weeks, in an Optuna
study.

Any number of workers share a study through its storage. Each takes a trial, replays the jobs and
stores the result, so a killed worker loses only its own trial. A trial whose result on a first part
of the training weeks is clearly bad is stopped; each further part is twice as long as the one
before.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import BerthError, ToolMissing, UsageError
from berth.policies.settings import PolicySettings
from berth.policies.tuning.figures import ReplayFigures, TracePart, TuningMetric
from berth.policies.tuning.parameters import (
    Parameter,
    Values,
    matters,
    settings_with,
    values_of,
)
from berth.policies.tuning.storage import (
    STOPPED,
    WORKER,
    Patience,
    Progress,
    StorageAway,
    StorageUnusable,
    of_storage,
    progress_of,
    storage_of,
    without_password,
)

if TYPE_CHECKING:
    import optuna

    from berth.policies.tuning.trace_replayer import TraceReplayer

STUDY = "berth-tune"
FIRST, KILLED, WHY, TODAY = "first", "killed", "why", "today"
"""Names of trial attributes: metrics of the first part, number of killed jobs, reason of a failure,
and a mark for a trial of today's policy (besides the first trial, which is one)."""
IDENTITY = "identity"
"""Name of a study attribute: digest of the tune's settings and jobs."""
LEAST_SEEN = 10
"""Least number of other trials before a trial is stopped for being behind them."""
BEHIND = 0.5
"""A trial that is behind more than this fraction of the others, or behind today's, is stopped."""
MARGIN = 1.05
"""A trial is behind another if no metric of the same part is better and one is worse by this
factor."""
MOST_FIRST = 0.75
"""Largest fraction of the training time that is replayed before the whole of it."""
MOST_FAILED = 20


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that was replayed to its end."""

    number: int
    values: Values
    scores: tuple[float, ...]
    """Value of each metric on the training weeks."""
    killed: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of all trials so far."""

    today: Tried | None
    tried: tuple[Tried, ...]
    front: tuple[Tried, ...]
    """Pareto front: trials that no other trial beats, sorted by the first metric."""
    progress: Progress


def require_optuna() -> None:
    """Check that Optuna is installed. Raises ToolMissing where it is not."""
    if importlib.util.find_spec("optuna") is None:
        raise ToolMissing("optuna", needed_for="a tune", hint="pip install 'berth[tune]'")


@dataclass(frozen=True)
class Tuning:
    """A tune: the parameters, the metrics and the jobs of the search."""

    replayer: TraceReplayer
    today: PolicySettings
    parameters: tuple[Parameter, ...]
    metrics: tuple[TuningMetric, ...]
    train: TracePart
    first: TracePart | None
    """The first part of the jobs that a trial replays; later parts double. None: no trial is
    stopped early."""
    identity: str
    """Digest of trace, site and all fields above; a storage holds one tune only."""

    def study(self, storage: str) -> optuna.Study:
        """Return the study in ``storage`` (path of a file or URL of a database), creating a missing
        one.

        Raises StorageUnusable, UsageError where the storage holds another tune, and ToolMissing
        without Optuna.
        """
        require_optuna()
        import optuna  # noqa: PLC0415 - of the extra

        _quiet(optuna)
        try:
            study = optuna.create_study(
                storage=storage_of(storage),
                study_name=STUDY,
                directions=["minimize"] * len(self.metrics),
                load_if_exists=True,
            )
            known = study.user_attrs.get(IDENTITY)
            if known is None:
                study.set_user_attr(IDENTITY, self.identity)
                study.enqueue_trial(self._now)
        except Exception as error:
            if not isinstance(error, OSError | ValueError | ImportError) and not of_storage(error):
                raise
            cause = error
            while isinstance(cause.__cause__, Exception):
                cause = cause.__cause__
            reason = str(cause).strip().splitlines() or [type(cause).__name__]
            raise StorageUnusable(
                f"the storage {without_password(storage)} cannot be used: {reason[0]}"
            ) from None
        if known not in (None, self.identity):
            raise UsageError(
                f"the storage {without_password(storage)} holds a tune of other jobs, another site "
                "or other options",
                hint="give another --folder, or remove that one",
            )
        return study

    def work(
        self,
        study: optuna.Study,
        trials: int,
        *,
        seed: int | None = None,
        show: Callable[[Progress], None] = lambda _: None,
        worker: str = "",
    ) -> None:
        """Run trials until the study has ``trials`` finished ones, together with any other workers.

        ``worker``: name of this worker. While the storage is unavailable, this waits. Raises
        BerthError where most trials fail or the storage does not come back.
        """
        import optuna  # noqa: PLC0415 - of the extra

        study.sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True,
            n_startup_trials=min(LEAST_SEEN, max(2, trials // 4)),
        )  # fmt: skip
        waiting = Patience()
        while True:
            try:
                now = progress_of(study)
                waiting.over()
                show(now)
                if now.finished >= trials:
                    return
                if now.failed >= MOST_FAILED and now.failed > now.finished:
                    raise BerthError(f"trials fail: {_last_problem(study)}")
                self._take(study, worker)
            except Exception as error:
                if not of_storage(error):
                    raise
                waiting.wait(StorageAway())

    def replay_today(self, study: optuna.Study) -> None:
        """Replay today's policy if the study lacks a completed trial of it, for example by a lost
        worker."""
        if _todays(_completed(study)) is None:
            study.enqueue_trial(self._now, user_attrs={TODAY: True})
            self._take(study, "")

    def _take(self, study: optuna.Study, worker: str) -> None:
        known = (BerthError, ValueError)
        # Optuna catches a trial's own errors. A ValueError from outside the trial means that
        # another process marked the trial as failed, because it took this worker for lost.
        with suppress(ValueError):
            study.optimize(partial(self._trial, worker=worker), n_trials=1, catch=known)

    def _trial(self, trial: optuna.Trial, worker: str) -> tuple[float, ...]:
        trial.set_user_attr(WORKER, worker)
        values = suggested(trial, self.parameters, self._now, self.today.objective)
        same = _same(trial.study, trial.number, values)
        if same is not None:
            trial.set_user_attr(KILLED, same.user_attrs.get(KILLED, 0))
            return tuple(same.values)
        policy = settings_with(self.today, values)
        try:
            for stage, part in enumerate(self.stages):
                scores = self.scores(self.replayer.replay(policy, part))
                trial.set_user_attr(_name(stage), scores)
                estimate = self._hopeless(trial, scores, _name(stage))
                if estimate is not None:
                    trial.set_user_attr(STOPPED, value=True)
                    return tuple(estimate)
            figures = self.replayer.replay(policy, self.train)
            trial.set_user_attr(KILLED, figures.killed)
            return tuple(self.scores(figures))
        except (BerthError, ValueError) as error:
            trial.set_user_attr(WHY, str(error))
            raise

    @property
    def _now(self) -> dict[str, float | str]:
        return values_of(self.today, self.parameters)

    def scores(self, figures: ReplayFigures) -> list[float]:
        """Return the value of each metric. Raises UsageError where a metric cannot be computed."""
        by_metric = [metric.of(figures) for metric in self.metrics]
        for metric, value in zip(self.metrics, by_metric, strict=True):
            if not math.isfinite(value):
                raise UsageError(
                    f"the metric {metric.name} is not known of these jobs",
                    hint="energy needs power and cost needs prices in the site file",
                )
        return by_metric

    @property
    def stages(self) -> tuple[TracePart, ...]:
        """Return the growing parts of the training time that are replayed before the whole of
        it."""
        parts: list[TracePart] = []
        part = self.first
        while part is not None and part.end_s < MOST_FIRST * self.train.end_s:
            parts.append(part)
            part = TracePart(part.begin_s, part.begin_s + 2 * (part.end_s - part.begin_s))
        return tuple(parts)

    def _hopeless(
        self, trial: optuna.Trial, scores: Sequence[float], name: str
    ) -> list[float] | None:
        """Return the estimated scores of a trial that should be stopped; None: continue the
        trial."""
        others = trial.study.get_trials(deepcopy=False)
        today = _todays([t for t in others if t.values])
        if today is None or name not in today.user_attrs:
            return None
        first: list[float] = today.user_attrs[name]
        estimate = [
            v * s / f if f else v for v, s, f in zip(today.values, scores, first, strict=True)
        ]
        if _behind(scores, first):
            return estimate
        seen = [t.user_attrs[name] for t in others if name in t.user_attrs]
        seen = [other_scores for other_scores in seen if list(other_scores) != list(scores)]
        if len(seen) < LEAST_SEEN:
            return None
        return (
            estimate
            if sum(_behind(scores, other_scores) for other_scores in seen) > BEHIND * len(seen)
            else None
        )

    def found(self, study: optuna.Study) -> Tuned:
        """Return the result of the trials so far."""
        done = _completed(study)
        today = _todays(done)
        tried = tuple(
            Tried(t.number, dict(t.params), tuple(t.values), int(t.user_attrs.get(KILLED, 0)))
            for t in done
        )
        unique = {trial.scores: trial for trial in reversed(tried)}.values()
        front = [trial for trial in unique if not any(_beats(other, trial) for other in unique)]
        return Tuned(
            next((trial for trial in tried if today and trial.number == today.number), None),
            tried,
            tuple(sorted(front, key=lambda trial: trial.scores)),
            progress_of(study),
        )


def suggested(
    trial: optuna.Trial, parameters: Iterable[Parameter], now: Values, objective: str
) -> dict[str, float | str]:
    """Return Optuna's suggested values for the parameters that have an effect in this trial.

    These are the parameters that the trial's objective uses. ``now``: today's values;
    ``objective``: today's objective.
    """
    values: dict[str, float | str] = {}
    for parameter in parameters:
        if not matters(parameter, str(values.get("objective", objective))):
            continue
        if parameter.choices:
            words = parameter.choices
            today = objective if parameter.name == "objective" else now.get(parameter.name)
            if isinstance(today, str) and today not in words:
                words = (today, *words)
            values[parameter.name] = trial.suggest_categorical(parameter.name, words)
        else:
            values[parameter.name] = trial.suggest_float(
                parameter.name, parameter.low, parameter.high, log=parameter.log
            )
    return values


def _name(stage: int) -> str:
    return FIRST if stage == 0 else f"{FIRST}{stage + 1}"


def _behind(scores: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(scores, other, strict=True))
    return all(s >= o for s, o in pairs) and any(s > MARGIN * o for s, o in pairs)


def _beats(trial: Tried, other: Tried) -> bool:
    pairs = list(zip(trial.scores, other.scores, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _todays(trials: Iterable[optuna.trial.FrozenTrial]) -> optuna.trial.FrozenTrial | None:
    return next((t for t in trials if t.number == 0 or TODAY in t.user_attrs), None)


def _same(study: optuna.Study, number: int, values: Values) -> Any:
    """Return a completed trial with the same values, whose result would be the same; None: no such
    trial."""
    return next((t for t in _completed(study) if t.number != number and t.params == values), None)


def _completed(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that were replayed to their end, without those stopped early."""
    every = study.get_trials(deepcopy=False)
    return [t for t in every if t.values and STOPPED not in t.user_attrs]


def _last_problem(study: optuna.Study) -> str:
    whys = [t.user_attrs[WHY] for t in study.get_trials(deepcopy=False) if WHY in t.user_attrs]
    return whys[-1] if whys else "their workers ended without a word"


def _quiet(optuna: Any) -> None:
    """Silence Optuna's log and warnings, because Berth reports progress and errors."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
