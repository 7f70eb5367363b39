"""What can go wrong between a plan and the GPUs."""

from __future__ import annotations

from berth.pilot.errors import BerthError, UsageError


class NvmlFailure(BerthError):
    """NVML refused or failed a call; ``code`` is NVML's return code."""

    def __init__(self, message: str, code: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class NoPermission(NvmlFailure):
    """Only a privileged user may do this."""


class PlanRefused(UsageError):
    """The plan or layout cannot be carried out as it is; nothing was touched."""


class Busy(BerthError):
    """What would have to be destroyed is in use; nothing was touched."""


class Locked(BerthError):
    """Somebody else is applying."""


class RolledBack(BerthError):
    """Applying failed and the recorded layout stands again."""


class Unfinished(BerthError):
    """Neither the new nor the old layout could be reached; the journal knows how to go on."""
