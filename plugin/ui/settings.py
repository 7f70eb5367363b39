"""How the page is served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MAX_UPLOAD_BYTES = 512 * 1024 * 1024
"""Of a model's file; documents are bounded by what reads them."""


@dataclass(frozen=True, slots=True)
class UiSettings:
    """What ``berth ui`` was started with."""

    site_file: Path | None = None
    """None: the demo site, without a store."""
    store_url: str | None = None
    """In place of the site's."""
    token: str | None = None
    """What a browser must show first; None: nothing."""
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Names (without a port) that requests may come by; others are refused (DNS rebinding)."""
    root_path: str = ""
    """Where a reverse proxy has it, such as ``/pun/berth``."""
    user_header: str | None = None
    """A reverse proxy's header that names who asks; None: whoever started the page."""
    admins: tuple[str, ...] = ()
    """With ``user_header``: who sees everybody's jobs."""
    reports: Path | None = None
    """Folder with reports of ``berth tune``, ``berth replay --html`` and ``berth report``."""
    fleet: Path | None = None
    """A ``berth.mig-fleet/1`` file to show."""
    plan: Path | None = None
    """A ``berth.mig-plan/1`` file to show beside it."""
    actions: bool = False
    """Administrators may change a few things; False: the page only reads."""
    max_upload_bytes: int = MAX_UPLOAD_BYTES
