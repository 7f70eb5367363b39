"""Berth's command line in this process."""

from __future__ import annotations

from berth.plugin.cli import main


def run(*arguments: object) -> int:
    """Run ``berth`` with these words; return its exit status."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0
