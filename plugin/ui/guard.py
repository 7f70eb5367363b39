"""How the page is served, what every request must pass, and what every answer carries.

A request is checked for the name it came by (DNS rebinding), the token, and the origin of a form
(forged requests); answers carry headers that allow this page's own files alone. Other users of a
login node reach its loopback addresses, too: the token keeps them out.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, Response, abort, redirect, request, session
from werkzeug.wrappers import Response as AnyResponse

MAX_UPLOAD_BYTES = 512 * 1024 * 1024
"""Largest file of a model; documents are bounded by what reads them."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
        "font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OWN_SITE = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class UiSettings:
    """What ``berth ui`` was started with."""

    site_file: Path | None = None
    """None: the demo site, without a store."""
    store_url: str | None = None
    """The store to read in place of the site's."""
    token: str | None = None
    """What a browser must show first; None: nothing."""
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Names (without a port) that requests may come by; others are refused (DNS rebinding)."""
    root_path: str = ""
    """Path at which a reverse proxy serves the page, such as ``/pun/berth``."""
    user_header: str | None = None
    """A reverse proxy's header that names who asks; None: whoever started the page."""
    admins: tuple[str, ...] = ()
    """Users that see everybody's jobs, where there is a ``user_header``."""
    reports: Path | None = None
    """Folder with reports: ``berth replay tune``, ``berth replay --html``, ``berth ui report``."""
    fleet: Path | None = None
    """A ``berth.mig-fleet/1`` file to show."""
    plan: Path | None = None
    """A ``berth.mig-plan/1`` file to show beside it."""
    actions: bool = False
    """Administrators may change a few things; False: the page only reads."""
    max_upload_bytes: int = MAX_UPLOAD_BYTES


def guard(app: Flask, settings: UiSettings) -> None:
    """Check every request of ``app``, and set the headers of every answer."""

    def check() -> AnyResponse | None:
        if _host(request.host) not in settings.hosts:
            abort(403, "This page is not served by that name.")
        if request.method not in ("GET", "HEAD") and not _own_form():
            abort(403, "A form of another page may not be sent here.")
        if not _own_or_a_visit():
            abort(403, "A page of another origin may link here, not load from here.")
        return _admitted(settings)

    app.before_request(check)
    app.after_request(_with_headers)


def _admitted(settings: UiSettings) -> AnyResponse | None:
    if settings.token is None or session.get("admitted") or request.endpoint == "static":
        return None
    shown = request.args.get("token", "")
    if not hmac.compare_digest(shown.encode(), settings.token.encode()):
        abort(401, "Open the address that berth ui printed: it carries a token.")
    session["admitted"] = True
    session.permanent = True
    rest = "&".join(
        part for part in request.query_string.decode().split("&") if not part.startswith("token=")
    )
    return redirect(request.root_path + request.path + (f"?{rest}" if rest else ""))


def _own_or_a_visit() -> bool:
    """Tell whether a page of ours asks, or somebody follows a link or types an address."""
    if request.headers.get("Sec-Fetch-Site", "none") in _OWN_SITE:
        return True
    visit = ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")
    return all(request.headers.get(name) == value for name, value in visit)


def _own_form() -> bool:
    """Tell whether a form was sent by a page of ours, as the browser says (Fetch Metadata,
    Origin)."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in _OWN_SITE
    origin = request.headers.get("Origin")
    return origin is not None and origin == request.host_url.rstrip("/")


def _host(host_header: str) -> str:
    name, _, port = host_header.rpartition(":")
    return name if name and port.isdigit() else host_header


def _with_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint not in ("static", "bootstrap.static"):
        response.headers.setdefault("Cache-Control", "no-store")
    return response
