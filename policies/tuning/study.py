"""The search: trials of settings, each a replay of the training weeks, in one Optuna study.

Any number of workers share a study by its storage; each takes a trial, replays it and stores the
result, so that a killed worker costs its own trial only. A trial that a first part of the training
weeks shows to be hopeless is not replayed further; each part is twice as long as the one before.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import BerthError, ToolMissing, UsageError
from berth.policies.settings import PolicySettings
from berth.policies.tuning.figures import Figures, Metric
from berth.policies.tuning.parameters import (
    ENABLED,
    Parameter,
    Values,
    matters,
    settings_with,
    values_of,
)
from berth.policies.tuning.replayer import Part, Replayer

if TYPE_CHECKING:
    import optuna

STUDY = "berth-tune"
FIRST, KILLED, WHY, STOPPED = "first", "killed", "why", "stopped"
"""Attributes of a trial: metrics of its first part, jobs killed, why it failed; it was stopped
early, and its values are the first part's, scaled as today's (a pruned trial of several metrics
would have none, and Optuna's samplers could not learn from it)."""
IDENTITY = "identity"
"""Attribute of a study: digest of what is tuned on what."""
LEAST_SEEN = 10
"""Trials before one is hopeless for being behind the others."""
BEHIND = 0.5
"""Hopeless is what is behind so large a part of the trials, or behind today's policy."""
MARGIN = 1.05
"""Behind: better in no metric of the first part, and worse in one by this factor."""
MOST_FIRST = 0.75
"""Of the training time: longer parts are not replayed before all of it."""
MOST_FAILED = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """Trials by what became of them."""

    done: int
    stopped: int
    """Early, as hopeless."""
    failed: int
    running: int

    @property
    def finished(self) -> int:
        """Those that count."""
        return self.done + self.stopped


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that was replayed to its end."""

    number: int
    values: Values
    scores: tuple[float, ...]
    """By metric, on the training weeks."""
    killed: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """What the trials found."""

    today: Tried | None
    tried: tuple[Tried, ...]
    front: tuple[Tried, ...]
    """Not beaten in every metric by another; by the first metric."""
    progress: Progress
    importance: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Metric -> parameter -> its part in the variance of the metric."""


def require_optuna() -> None:
    """Raises ToolMissing without the extra."""
    if importlib.util.find_spec("optuna") is None:
        raise ToolMissing("optuna", needed_for="a tune", hint="pip install 'berth[tune]'")


@dataclass(frozen=True)
class Tuning:
    """What is tuned on what."""

    replayer: Replayer
    today: PolicySettings
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    train: Part
    first: Part | None
    """Replayed first, then twice as much, and so on; None: no trial is stopped early."""
    identity: str
    """Of trace, site and all of the above: a storage holds one tune."""

    def study(self, storage: str) -> optuna.Study:
        """The study in ``storage`` (a file's path, or the URL of a database), made if need be.

        Raises UsageError where it holds another tune, ToolMissing without Optuna.
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
        except (OSError, ValueError, ImportError) as error:
            raise UsageError(f"the storage {storage} cannot be used: {error}") from None
        except Exception as error:
            if type(error).__module__.startswith(("sqlalchemy", "optuna", "json")):
                raise UsageError(f"the storage {storage} cannot be used: {error}") from None
            raise
        if known not in (None, self.identity):
            raise UsageError(
                f"the storage {storage} holds a tune of other jobs, another site or other options",
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
    ) -> None:
        """Take trials until the study has ``trials``, however many workers there are.

        Raises BerthError where nearly all trials fail.
        """
        import optuna  # noqa: PLC0415 - of the extra

        study.sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True,
            n_startup_trials=min(LEAST_SEEN, max(2, trials // 4)),
        )  # fmt: skip
        while True:
            now = progress_of(study)
            show(now)
            if now.finished >= trials:
                return
            if now.failed >= MOST_FAILED and now.failed > now.finished:
                raise BerthError(f"trials fail: {_last_problem(study)}")
            study.optimize(self._trial, n_trials=1, catch=(BerthError, ValueError))

    def _trial(self, trial: optuna.Trial) -> tuple[float, ...]:
        values = suggested(trial, self.parameters, self._now, self.today.objective)
        same = _same(trial.study, trial.number, values)
        if same is not None:
            trial.set_user_attr(KILLED, same.user_attrs.get(KILLED, 0))
            return tuple(same.values)
        policy = settings_with(self.today, values)
        replayer = self.replayer.cut(self.replayer.slicing.with_values(values))
        try:
            for stage, part in enumerate(self.stages):
                scores = self.scores(replayer.replay(policy, part))
                trial.set_user_attr(_name(stage), scores)
                estimate = self._hopeless(trial, scores, _name(stage))
                if estimate is not None:
                    trial.set_user_attr(STOPPED, value=True)
                    return tuple(estimate)
            figures = replayer.replay(policy, self.train)
            trial.set_user_attr(KILLED, figures.killed)
            return tuple(self.scores(figures))
        except (BerthError, ValueError) as error:
            trial.set_user_attr(WHY, str(error))
            raise

    @property
    def _now(self) -> dict[str, float | str]:
        """Today's values."""
        sliced = self.replayer.slicing.values(self.parameters)
        return {**values_of(self.today, self.parameters), **sliced}

    def scores(self, figures: Figures) -> list[float]:
        """By metric. Raises UsageError where one cannot be computed."""
        found = [metric.of(figures) for metric in self.metrics]
        for metric, value in zip(self.metrics, found, strict=True):
            if not math.isfinite(value):
                raise UsageError(
                    f"the metric {metric.name} is not known of these jobs",
                    hint="energy needs power and cost needs prices in the site file",
                )
        return found

    @property
    def stages(self) -> tuple[Part, ...]:
        """Growing parts of the training time, before all of it."""
        found: list[Part] = []
        part = self.first
        while part is not None and part.end_s < MOST_FIRST * self.train.end_s:
            found.append(part)
            part = Part(part.begin_s, part.begin_s + 2 * (part.end_s - part.begin_s))
        return tuple(found)

    def _hopeless(
        self, trial: optuna.Trial, scores: Sequence[float], name: str
    ) -> list[float] | None:
        """What the trial's scores would about be, where it is hopeless; None: it is not."""
        others = trial.study.get_trials(deepcopy=False)
        today = next((t for t in others if t.number == 0 and t.values), None)
        if today is None or name not in today.user_attrs:
            return None
        first: list[float] = today.user_attrs[name]
        estimate = [
            v * s / f if f else v for v, s, f in zip(today.values, scores, first, strict=True)
        ]
        if _behind(scores, first):
            return estimate
        seen = [t.user_attrs[name] for t in others if name in t.user_attrs]
        seen = [one for one in seen if list(one) != list(scores)]
        if len(seen) < LEAST_SEEN:
            return None
        return estimate if sum(_behind(scores, one) for one in seen) > BEHIND * len(seen) else None

    def found(self, study: optuna.Study) -> Tuned:
        """What the trials found so far."""
        done = _completed(study)
        tried = tuple(
            Tried(t.number, dict(t.params), tuple(t.values), int(t.user_attrs.get(KILLED, 0)))
            for t in done
        )
        unique = {one.scores: one for one in reversed(tried)}.values()
        front = [one for one in unique if not any(_beats(other, one) for other in unique)]
        return Tuned(
            next((one for one in tried if one.number == 0), None),
            tried,
            tuple(sorted(front, key=lambda one: one.scores)),
            progress_of(study),
            _importance(study, self.metrics) if len(done) >= LEAST_SEEN else {},
        )


def storage_of(text: str) -> Any:
    """A journal file, or the database of a URL. Raises ValueError, OSError or ImportError."""
    import optuna  # noqa: PLC0415 - of the extra

    if "://" in text:
        return optuna.storages.RDBStorage(text, heartbeat_interval=60, grace_period=180)
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415 - of the extra

    return optuna.storages.JournalStorage(JournalFileBackend(text))


def suggested(
    trial: optuna.Trial, parameters: Iterable[Parameter], now: Values, objective: str
) -> dict[str, float | str]:
    """Values of the parameters that count: that the trial's objective looks at, and of cutting
    GPUs anew only where they are. ``now``: today's values; ``objective``: today's."""
    found: dict[str, float | str] = {}
    for one in parameters:
        if not matters(one, str(found.get("objective", objective))):
            continue
        if one.recut and found.get(ENABLED, now.get(ENABLED)) != "yes":
            continue
        if one.choices:
            words = one.choices
            today = objective if one.name == "objective" else now.get(one.name)
            if isinstance(today, str) and today not in words:
                words = (today, *words)
            found[one.name] = trial.suggest_categorical(one.name, words)
        else:
            found[one.name] = trial.suggest_float(one.name, one.low, one.high, log=one.log)
    return found


def progress_of(study: optuna.Study) -> Progress:
    """Trials by what became of them."""
    counts: dict[str, int] = {}
    for trial in study.get_trials(deepcopy=False):
        name = "STOPPED" if trial.values and STOPPED in trial.user_attrs else trial.state.name
        counts[name] = counts.get(name, 0) + 1
    return Progress(*(counts.get(name, 0) for name in ("COMPLETE", "STOPPED", "FAIL", "RUNNING")))


def forget_running(study: optuna.Study) -> int:
    """Give up trials whose workers are gone; how many. Only when no worker is left."""
    import optuna  # noqa: PLC0415 - of the extra

    running = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
    for trial in running:
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return len(running)


def _name(stage: int) -> str:
    """Attribute of a trial that holds the metrics of a stage."""
    return FIRST if stage == 0 else f"{FIRST}{stage + 1}"


def _behind(scores: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(scores, other, strict=True))
    return all(s >= o for s, o in pairs) and any(s > MARGIN * o for s, o in pairs)


def _beats(one: Tried, other: Tried) -> bool:
    pairs = list(zip(one.scores, other.scores, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _same(study: optuna.Study, number: int, values: Values) -> Any:
    """A completed trial of the very values; equal replays have equal ends."""
    return next((t for t in _completed(study) if t.number != number and t.params == values), None)


def _completed(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that were replayed to their end."""
    every = study.get_trials(deepcopy=False)
    return [t for t in every if t.values and STOPPED not in t.user_attrs]


def _last_problem(study: optuna.Study) -> str:
    whys = [t.user_attrs[WHY] for t in study.get_trials(deepcopy=False) if WHY in t.user_attrs]
    return whys[-1] if whys else "their workers ended without a word"


def _importance(study: optuna.Study, metrics: Sequence[Metric]) -> dict[str, dict[str, float]]:
    """PED-ANOVA (Watanabe et al. 2023): needs no further library. Empty where it cannot say."""
    import optuna  # noqa: PLC0415 - of the extra

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, metric in enumerate(metrics):
            try:
                found[metric.name] = optuna.importance.get_param_importances(
                    study,
                    evaluator=optuna.importance.PedAnovaImportanceEvaluator(),
                    target=partial(_value, index),
                )
            except (RuntimeError, ValueError):
                continue
    return found


def _value(index: int, trial: optuna.trial.FrozenTrial) -> float:
    return float(trial.values[index])


def _quiet(optuna: Any) -> None:
    """Berth says what there is to say."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
