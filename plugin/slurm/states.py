"""Slurm's words for the states of jobs, and Berth's."""

from __future__ import annotations

_STATES = {
    "PENDING": "pending",
    "REQUEUED": "pending",
    "CONFIGURING": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "COMPLETED": "completed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out-of-memory",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "PREEMPTED": "cancelled",
}


def state_of(text: str) -> str:
    """``CANCELLED by 1000`` is ``cancelled``."""
    return _STATES.get(text.partition(" ")[0].rstrip("+"), "unknown")
