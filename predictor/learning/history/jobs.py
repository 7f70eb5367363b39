"""A job as it was asked for, and as it ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AskedJob:
    """What is known of a job at its submission. Empty texts and None: not known."""

    user: str
    submit_s: float
    """Unix time."""
    cores: int = 1
    request_s: float | None = None
    """Its time limit."""
    request_bytes: float | None = None
    """Memory asked for."""
    account: str = ""
    name: str = ""
    script: str = ""
    """Fingerprint of the batch script with its arguments."""
    similar: str = ""
    """What the script was given, but for numbers; a digest."""
    platform: str = ""
    """Where it shall run, or ran; runs elsewhere count less."""


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that has run. Times are Unix seconds."""

    asked: AskedJob
    end_s: float
    runtime_s: float
    completed: bool = True
