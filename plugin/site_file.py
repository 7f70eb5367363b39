"""Finds the site file that a command uses where the user names none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from berth.plugin.site.site import Site

SITE_FILE = Path("/etc/berth/berth.toml")
"""Path of the installed site file."""


def find_site(site_file: Path | None) -> Site | None:
    """Load the named site file, or else the installed one; None: no file is named or installed.

    Raises DocumentError.
    """
    if site_file is None and not SITE_FILE.exists():
        return None
    from berth.plugin.site.load import load_site  # noqa: PLC0415 - the schedulers, pydantic

    return load_site(site_file or SITE_FILE)
