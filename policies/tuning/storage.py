"""The storage that the workers of a tune share, and the progress of the tune stored in it.

The storage is a journal file or a database. Workers wait while the storage is unavailable.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from berth.pilot.errors import BerthError, UsageError

if TYPE_CHECKING:
    import optuna

PATIENCE_S, PAUSE_S = 300.0, 2.0
"""Longest time that a storage may be unavailable, and time between two attempts, in seconds."""
T = TypeVar("T")


def storage_of(text: str) -> Any:
    """Return Optuna's storage for a journal file's path or a database's URL.

    Raises ValueError, OSError, ImportError or the database driver's errors.
    """
    import optuna  # noqa: PLC0415 - of the extra

    if "://" in text:
        return optuna.storages.RDBStorage(
            text, engine_kwargs={"pool_pre_ping": True}, heartbeat_interval=60, grace_period=180
        )
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415 - of the extra

    return optuna.storages.JournalStorage(JournalFileBackend(text))


class StorageAway(BerthError):
    """The storage of a tune does not answer."""

    def __init__(self) -> None:
        super().__init__(
            "the storage of the tune does not answer any more",
            hint="once it does, the same command goes on with what is done",
        )


class StorageUnusable(UsageError):
    """The storage of a tune cannot be opened."""


class Patience:
    """A limit on how long an external service may be unavailable."""

    def __init__(self, most_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> None:
        self._most_s, self._pause_s = most_s, pause_s
        self._since_s: float | None = None

    def over(self) -> None:
        """Record that the service answers again."""
        self._since_s = None

    def wait(self, error: BerthError) -> None:
        """Sleep until the next attempt; raise ``error`` if the service has been unavailable for too
        long."""
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self._most_s:
            raise error
        time.sleep(self._pause_s)


def storage_answers(read: Callable[[], T]) -> T:
    """Return the result of ``read``. Raises StorageAway where the storage does not answer."""
    try:
        return read()
    except Exception as error:
        if not of_storage(error):
            raise
        raise StorageAway from None


def without_password(storage: str) -> str:
    """Return the storage's path or URL with the URL's password replaced by ``***``."""
    return re.sub(r"(?<=://)([^/@]*?):[^/]*@", r"\1:***@", storage)


def of_storage(error: BaseException | None) -> bool:
    """Return whether the error comes from the database or from Optuna reading the storage.

    The causes of the error are examined, too; a BerthError never counts.
    """
    while error is not None and not isinstance(error, BerthError):
        if type(error).__module__.startswith(("sqlalchemy", "psycopg", "optuna", "json")):
            return True
        error = error.__cause__ or error.__context__
    return False


STOPPED, WORKER = "stopped", "worker"
"""Names of trial attributes. ``stopped``: the trial was stopped early; its values are estimates,
scaled from the first part of the jobs (Optuna's pruned trials have no values with several metrics,
so its samplers could not learn from them). ``worker``: name of the worker that runs the trial."""
SURPLUS = "surplus"
"""Name of a study attribute: numbers of the trials that were given up unfinished because enough
others were done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of finished, running and failed trials of a tuning."""

    done: int
    stopped: int
    """Trials stopped early because they could not become good."""
    failed: int
    """Trials that failed or whose worker ended before they did."""
    running: int
    surplus: int = 0
    """Trials given up unfinished because enough others were done."""

    @property
    def finished(self) -> int:
        """Return the number of trials with a result: done or stopped early."""
        return self.done + self.stopped


def progress_of(study: optuna.Study) -> Progress:
    """Return the number of trials of a study by outcome."""
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
    """Mark as failed the running trials whose workers no longer work on them.

    A trial is surplus if its worker is in ``stopped``, which were ended because the tune is done. A
    trial is lost if its worker has ended (``gone``) or has begun another trial since. Other trials
    continue.
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
