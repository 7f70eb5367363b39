"""The folder of a tune: what was asked, the storage, what came out; all that a worker needs."""

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
SLICES = "mig.tuned.toml"


class Order(Document):
    """What is tuned on what (``berth.tune/1``)."""

    schema_: str = Field(default="berth.tune/1", alias="schema")
    site: str
    """Path of the site file."""
    trace: str
    """Path of the file of past jobs."""
    content: str
    """Digest of both files."""
    parameters: tuple[str, ...] = ()
    """Empty: all."""
    metrics: tuple[str, ...] = Field(min_length=1)
    trials: int = Field(ge=1)
    train_s: Positive
    """Jobs submitted so long after the first train; the later ones test."""
    first_s: NonNegative = 0.0
    """Seconds of the training jobs that are replayed first; 0: no trial is stopped early."""
    storage: str
    """Path of the journal, or URL of a database."""
    seed: int = 0
    options: dict[str, str] = Field(default_factory=dict)
    """How jobs are replayed, as ``berth replay`` has them."""

    @property
    def identity(self) -> str:
        """Return a digest of all that changes what a trial means; more trials are the same tune."""
        text = self.model_copy(update={"trials": 1, "storage": "", "seed": 0}).model_dump_json()
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def content_of(*paths: Path) -> str:
    """Return a digest of files' contents. Raises UsageError."""
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


def write_order(folder: Path, order: Order) -> None:
    """Put it into the folder, made if need be; for its owner alone where it holds a password.

    Raises UsageError.
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


def read_order(folder: Path) -> Order:
    """Read the order of the folder's tune. Raises UsageError where there is none."""
    path = folder / ORDER_FILE
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no tune", hint="start one: berth replay tune JOBS --site FILE"
        )
    return read_json(path, Order)
