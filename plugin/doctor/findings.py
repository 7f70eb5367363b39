"""What a check of the installation says: ``berth doctor`` prints findings, others make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination."""

    check: str
    status: Status
    text: str
    advice: str | None = None


Findings = Iterator[Finding]
