"""Codes that the daemon adds to the policies' own: about how a job was asked for.

``docs/protocol.md`` explains each of them.
"""

from __future__ import annotations

from enum import StrEnum


class DaemonCode(StrEnum):
    """Why the daemon leaves a job alone before (or after) a policy has looked at it."""

    OWN_QUEUE = "own-queue"
    NO_FORECAST = "no-forecast"
    BAD_PROFILE_NAME = "bad-profile-name"
    BAD_MODE = "bad-mode"
    INTERACTIVE_SHAPE = "interactive-shape"
    BAD_REQUEST = "bad-request"
