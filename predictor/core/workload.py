"""The Workload: what Berth predicts and places. The schema of its document determines its kind.

A kind of workload is a document (a pydantic model with a ``schema``) and a function that describes
the document as a Workload. ``KINDS`` holds Berth's own kinds and those of installed packages (entry
points of the group ``berth.workloads``, each named as its schema).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from berth.pilot.documents import MAX_DOCUMENT_BYTES, Document, json_data, read_toml, validate
from berth.pilot.errors import DocumentError
from berth.pilot.plugins import Registry
from berth.pilot.profile import Positive, RunsOn
from berth.predictor.core.forecast import WorkUnit


class Amount(Document):
    """The amount of work per job, in the unit that predictions use."""

    unit: WorkUnit
    count: Positive | None = None
    """Number of units; None: unknown, so that platforms are only ranked by relative time."""
    steps_per_epoch: Positive | None = Field(default=None)
    """Steps per epoch: the factor from a predicted step to an epoch with unit ``epoch``."""

    @property
    def steps(self) -> float | None:
        """Return how many predicted units one job executes; None: unknown."""
        if self.count is None or self.unit is not WorkUnit.EPOCH:
            return self.count
        return None if self.steps_per_epoch is None else self.count * self.steps_per_epoch


WHOLE_JOB = Amount(unit=WorkUnit.JOB, count=1)


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload: the fields that all of Berth uses, and its document."""

    kind: str
    """Kind of workload: ``program``, ``model-graph``, ``language-model``, ``slices``, ``history``
    ..."""
    name: str
    digest: str
    """``sha256:`` digest of the document's content."""
    runs_on: RunsOn
    """Devices, architecture and instruction sets that the workload needs, and its threads, ranks
    and GPUs."""
    amount: Amount
    document: Document


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One kind of workload document."""

    name: str
    model: type[Document]
    describe: Callable[[Any], Workload]
    """Returns the Workload that a document of type ``model`` describes."""


OWN_ENTRY_POINTS = Path(__file__).parents[1] / "entry_points.ini"
KINDS: Registry[WorkloadKind] = Registry(
    "berth.workloads", kind="schema of workloads", own=OWN_ENTRY_POINTS, needs=("model", "describe")
)
"""Kinds of workload by the schema of their documents."""


def digest_of(document: Document) -> str:
    """Return ``sha256:`` and the hex digest of the document's content."""
    return "sha256:" + hashlib.sha256(document.model_dump_json(by_alias=True).encode()).hexdigest()


def workload_of(document: Document) -> Workload:
    """Return the workload that a document describes.

    Raises UsageError where the document's schema is not a workload's.
    """
    return kind_of(str(getattr(document, "schema_", ""))).describe(document)


def kind_of(schema: str) -> WorkloadKind:
    """Return the kind of workload documents with this schema.

    Raises UsageError that names the known schemas.
    """
    return KINDS.load(schema)


def parse_workload(text: bytes | str, *, source: str | Path) -> Workload:
    """Return the workload in JSON text.

    Raises DocumentError with one sentence.
    """
    data = json_data(text, source=source)
    named = data.get("schema") if isinstance(data, dict) else None
    schema = named if isinstance(named, str) else ""
    if schema not in KINDS.names():
        raise _unknown_schema(source, schema)
    kind = KINDS.load(schema)
    return kind.describe(validate(data, kind.model, source=source))


def read_workload(path: Path) -> Workload:
    """Return the workload in a JSON file, or in a TOML file of slices.

    Raises DocumentError.
    """
    if path.suffix == ".toml":
        kind = KINDS.load("berth.slice-workload/1")
        return kind.describe(read_toml(path, kind.model))
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        raise DocumentError(path, "does not exist") from None
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    return parse_workload(text, source=path)


def _unknown_schema(source: str | Path, schema: str) -> DocumentError:
    problem = f"has the schema {schema!r}, which is no workload's" if schema else "names no schema"
    return DocumentError(source, problem, key="schema", hint=f"known: {', '.join(KINDS.names())}")
