"""The storage that the workers of a tune share, and how far the tune in it is.

It is a journal file or a database, which may be away for a while.
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
"""Seconds for which a storage may be away, and between two attempts."""
T = TypeVar("T")


def storage_of(text: str) -> Any:
    """Return a journal file, or the database of a URL. Raises ValueError, OSError or
    ImportError."""
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
    """A limit on how long something that others answer for may be away."""

    def __init__(self, most_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> None:
        self._most_s, self._pause_s = most_s, pause_s
        self._since_s: float | None = None

    def over(self) -> None:
        """Note that it answers again."""
        self._since_s = None

    def wait(self, error: BerthError) -> None:
        """Wait for the next attempt; raise ``error`` after too long."""
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self._most_s:
            raise error
        time.sleep(self._pause_s)


def storage_answers(read: Callable[[], T]) -> T:
    """Return what ``read`` returns. Raises StorageAway where the storage does not answer."""
    try:
        return read()
    except Exception as error:
        if not of_storage(error):
            raise
        raise StorageAway from None


def without_password(storage: str) -> str:
    """Return a path as it is, the URL of a database without its password."""
    return re.sub(r"(?<=://)([^/@]*?):[^/]*@", r"\1:***@", storage)


def of_storage(error: BaseException | None) -> bool:
    """Return whether a database, or Optuna's reading of it, failed; also where Optuna fails over
    that."""
    while error is not None and not isinstance(error, BerthError):
        if type(error).__module__.startswith(("sqlalchemy", "psycopg", "optuna", "json")):
            return True
        error = error.__cause__ or error.__context__
    return False


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
    """Trials stopped early, as hopeless."""
    failed: int
    """Trials that failed, or were lost with their workers."""
    running: int
    surplus: int = 0
    """Trials given up unfinished, since enough others were done."""

    @property
    def finished(self) -> int:
        """Return how many trials count."""
        return self.done + self.stopped


def progress_of(study: optuna.Study) -> Progress:
    """Return how many trials of a study are done, stopped, failed and running."""
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

    A trial whose worker is in ``stopped``, ended since the tune is done, is surplus. A trial is
    lost whose worker is ``gone``, or has begun another one since; the rest runs on.
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
