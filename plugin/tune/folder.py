"""The folder of a tune, which has all that a worker needs: settings, storage, results."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_json, write_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import NonNegative, Positive
from berth.policies.tuning.storage import without_password

ORDER_FILE = "tune.json"
JOURNAL = "journal.log"
REPORT = "report.html"
TUNED = "berth.tuned.toml"
DIFFERENCE = "berth.diff"


class TuneOrder(Document):
    """The settings of a tune (``berth.tune/1``)."""

    schema_: str = Field(default="berth.tune/1", alias="schema")
    site: str
    """Path of the site file."""
    trace: str
    """Path of the file of past jobs."""
    content: str
    """Digest of both files."""
    parameters: tuple[str, ...] = ()
    """Names of the tuned parameters; empty: all."""
    metrics: tuple[str, ...] = Field(min_length=1)
    trials: int = Field(ge=1)
    train_s: Positive
    """Jobs submitted within this time of the first are for training; later jobs are for testing."""
    first_s: NonNegative = 0.0
    """Seconds of the training jobs that are replayed first; 0: no trial is stopped early."""
    storage: str
    """Path of the trials' journal file, or URL of a database."""
    seed: int = 0
    options: dict[str, str] = Field(default_factory=dict)
    """Options of the replay, as ``berth replay`` has them."""

    @property
    def identity(self) -> str:
        """Return a digest of the settings that affect a trial's result, such as jobs and metrics.

        The number of trials, the storage and the seed are left out.
        """
        text = self.model_copy(update={"trials": 1, "storage": "", "seed": 0}).model_dump_json()
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def content_of(*paths: Path) -> str:
    """Return a digest of the files' contents. Raises UsageError."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as stream:
                while block := stream.read(2**20):
                    digest.update(block)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        digest.update(b"\x00")
    return digest.hexdigest()[:32]


def write_order(folder: Path, order: TuneOrder) -> None:
    """Write the tune's settings into the folder, which is created if missing.

    If the storage's URL has a password, only the owner may read the file. Raises UsageError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        secret = without_password(order.storage) != order.storage
        before = os.umask(0o077) if secret else None
        try:
            write_json(folder / ORDER_FILE, order)
        finally:
            if before is not None:
                os.umask(before)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None


def read_order(folder: Path) -> TuneOrder:
    """Return the settings of the folder's tune. Raises UsageError where there are none."""
    path = folder / ORDER_FILE
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no tune", hint="start one: berth replay tune JOBS --site FILE"
        )
    return read_json(path, TuneOrder)
