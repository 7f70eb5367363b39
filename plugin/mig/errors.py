"""Errors of changing MIG layouts."""

from __future__ import annotations

from berth.pilot.errors import BerthError, UsageError


class NvmlFailure(BerthError):
    """NVML refused a call or failed; ``code`` is NVML's return code."""

    def __init__(self, message: str, code: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class NoPermission(NvmlFailure):
    """NVML allows the call only to a privileged user."""


class PlanRefused(UsageError):
    """The plan or layout cannot be carried out; no GPU was changed."""


class Busy(BerthError):
    """An instance that must be destroyed is in use; no GPU was changed."""


class Locked(BerthError):
    """Another process is changing MIG layouts."""


class RolledBack(BerthError):
    """Applying the new layout failed, and the old layout was restored."""


class Unfinished(BerthError):
    """Neither the new nor the old layout could be reached; ``resume`` continues from the
    journal."""
