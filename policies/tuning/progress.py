"""How far a tune is: its trials by what became of them, and those that nobody works on any more."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

STOPPED, WORKER = "stopped", "worker"
"""Attributes of a trial: it was stopped early, and its values are the first part's, scaled as
today's (a pruned trial of several metrics would have none, and Optuna's samplers could not learn
from it); who took it."""
SURPLUS = "surplus"
"""Attribute of a study: numbers of the trials that were begun and given up as nobody needed them
any more."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Trials by what became of them."""

    done: int
    stopped: int
    """Early, as hopeless."""
    failed: int
    """Also those that were lost with their workers."""
    running: int
    surplus: int = 0
    """Given up unfinished, since enough others were done."""

    @property
    def finished(self) -> int:
        """Those that count."""
        return self.done + self.stopped


def progress_of(study: optuna.Study) -> Progress:
    """Trials by what became of them."""
    counts: dict[str, int] = {}
    surplus = set(study.user_attrs.get(SURPLUS, ()))
    for trial in study.get_trials(deepcopy=False):
        name = "STOPPED" if trial.values and STOPPED in trial.user_attrs else trial.state.name
        name = SURPLUS if trial.number in surplus else name
        counts[name] = counts.get(name, 0) + 1
    names = ("COMPLETE", "STOPPED", "FAIL", "RUNNING", SURPLUS)
    return Progress(*(counts.get(name, 0) for name in names))


def settle_running(
    study: optuna.Study,
    stopped: Collection[str] = (),
    gone: Callable[[str], bool] = lambda _: True,
) -> None:
    """Give up the trials that nobody works on any more, once there are enough.

    What a worker of ``stopped`` was at, ended since the tune is done, is surplus. A trial is lost
    whose worker is ``gone``, or has begun another one since; the rest runs on.
    """
    import optuna  # noqa: PLC0415 - of the extra

    running = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
    newest = {t.user_attrs.get(WORKER, ""): t.number for t in running}
    # A worker names its trial a moment after it has begun it.
    nameless = sum(name not in newest for name in stopped)
    surplus, lost = [], []
    for trial in running:
        worker = trial.user_attrs.get(WORKER, "")
        if not worker and nameless:
            nameless -= 1
            surplus.append(trial.number)
        elif not worker or newest[worker] != trial.number:
            lost.append(trial.number)
        elif worker in stopped:
            surplus.append(trial.number)
        elif gone(worker):
            lost.append(trial.number)
    if surplus:
        study.set_user_attr(SURPLUS, [*study.user_attrs.get(SURPLUS, ()), *surplus])
    for number in (*surplus, *lost):
        study.tell(number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
