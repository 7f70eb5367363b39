"""The storage that the workers of a tune share: a journal file or a database, which may be away."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from berth.pilot.errors import BerthError, UsageError

PATIENCE_S, PAUSE_S = 300.0, 2.0
"""For so long a storage may be away, and it is asked again after so long."""
T = TypeVar("T")


def storage_of(text: str) -> Any:
    """A journal file, or the database of a URL. Raises ValueError, OSError or ImportError."""
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
    """How long something that others answer for may be away."""

    def __init__(self, most_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> None:
        self._most_s, self._pause_s = most_s, pause_s
        self._since_s: float | None = None

    def over(self) -> None:
        """It is there."""
        self._since_s = None

    def wait(self, error: BerthError) -> None:
        """It is not; after too long raises ``error``."""
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self._most_s:
            raise error
        time.sleep(self._pause_s)


def storage_answers(read: Callable[[], T]) -> T:
    """What ``read`` says. Raises StorageAway where the storage does not answer."""
    try:
        return read()
    except Exception as error:
        if not of_storage(error):
            raise
        raise StorageAway from None


def without_password(storage: str) -> str:
    """A path as it is, the URL of a database without its password."""
    return re.sub(r"(?<=://)([^/@]*?):[^/]*@", r"\1:***@", storage)


def of_storage(error: BaseException | None) -> bool:
    """Whether a database, or Optuna's reading of it, failed; also where Optuna fails over that."""
    while error is not None and not isinstance(error, BerthError):
        if type(error).__module__.startswith(("sqlalchemy", "psycopg", "optuna", "json")):
            return True
        error = error.__cause__ or error.__context__
    return False
