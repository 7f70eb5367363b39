"""Errors of applying a MIG plan to GPUs."""

from __future__ import annotations

from berth.pilot.errors import BerthError, UsageError


class NvmlFailure(BerthError):
    """NVML refused or failed a call; ``code`` is NVML's return code."""

    def __init__(self, message: str, code: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class NoPermission(NvmlFailure):
    """The NVML call needs root or another privileged user."""


class PlanRefused(UsageError):
    """The plan or layout cannot be applied; nothing was changed."""


class Busy(BerthError):
    """An instance that would have to be destroyed is in use; nothing was changed."""


class Locked(BerthError):
    """Another process holds the lock of the state folder: it is applying a layout."""


class RolledBack(BerthError):
    """Applying failed; the GPUs have their earlier layout again."""


class Unfinished(BerthError):
    """Neither the new nor the old layout could be reached; ``berth mig apply --resume`` reads
    the journal and tries again."""
