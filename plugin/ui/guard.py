"""Security of the web page: checks of every request, and headers of every response.

Each request's host name (against DNS rebinding), token, and form origin (against forged requests)
are checked. Response headers allow only this page's own files. The token also keeps out other users
of a login node, who can reach its loopback addresses.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, Response, abort, redirect, request, session
from werkzeug.wrappers import Response as AnyResponse

MAX_UPLOAD_BYTES = 512 * 1024 * 1024
"""Maximum size of an uploaded model file; documents are limited by their readers."""
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
    """The options that ``berth ui`` was started with."""

    site_file: Path | None = None
    """Path of the site file; None: the demo site, without a store."""
    store_url: str | None = None
    """URL of a store to read in place of the site's."""
    token: str | None = None
    """Token that a browser must send first; None: none is needed."""
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Accepted host names (without a port) of requests; others are refused (DNS rebinding)."""
    root_path: str = ""
    """Path at which a reverse proxy serves the page, such as ``/pun/berth``."""
    user_header: str | None = None
    """A reverse proxy's header with the viewer's name; None: the viewer is who started the page."""
    admins: tuple[str, ...] = ()
    """Users that may see all users' jobs, where ``user_header`` is set."""
    port: int = 0
    """The port at which the page is served; 0: a Unix socket."""
    fleet: Path | None = None
    """A ``berth.mig-fleet/1`` file to show."""
    plan: Path | None = None
    """A ``berth.mig-plan/1`` file to show beside the fleet."""
    max_upload_bytes: int = MAX_UPLOAD_BYTES


def guard(app: Flask, settings: UiSettings) -> None:
    """Install the checks of every request of ``app`` and the headers of every response."""

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
    """Return whether the request comes from this page, from a followed link or from a typed
    address."""
    if request.headers.get("Sec-Fetch-Site", "none") in _OWN_SITE:
        return True
    visit = ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")
    return all(request.headers.get(name) == value for name, value in visit)


def _own_form() -> bool:
    """Return whether this page sent the form, by the browser's Fetch Metadata or Origin header."""
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
