"""The web page as a WSGI application."""

from __future__ import annotations

import secrets
from datetime import timedelta
from http import HTTPStatus

from flask import Flask, redirect, render_template, url_for
from flask_bootstrap import Bootstrap5
from flask_wtf.csrf import CSRFProtect
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from berth.pilot.errors import BerthError
from berth.plugin.report.parts import sentence
from berth.plugin.ui import jobs, mig, overview, place, predict, site
from berth.plugin.ui.context import KEY, Context, close_store
from berth.plugin.ui.guard import UiSettings, guard

VIEWS = (
    ("overview.overview", "Overview", overview.view),
    ("place.decide", "Place", place.view),
    ("predict.predict", "Predict", predict.view),
    ("jobs.jobs", "Jobs", jobs.view),
    ("site.site", "Site", site.view),
    ("mig.mig", "MIG", mig.view),
)
_SESSION = timedelta(days=7)


def create_app(settings: UiSettings) -> Flask:
    """Return the application; it opens no file or store before its first request."""
    app = Flask(__name__, static_url_path="/static")
    app.config.update(
        SECRET_KEY=secrets.token_bytes(32),
        SESSION_COOKIE_NAME=f"berth-{settings.port}",  # browsers send it to every port
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_HTTPONLY=True,
        PERMANENT_SESSION_LIFETIME=_SESSION,
        MAX_CONTENT_LENGTH=settings.max_upload_bytes,
        BOOTSTRAP_SERVE_LOCAL=True,
        WTF_CSRF_TIME_LIMIT=None,
        APPLICATION_ROOT=settings.root_path or "/",
    )
    app.extensions[KEY] = Context(settings)
    app.add_template_filter(sentence)
    Bootstrap5(app)
    app.teardown_appcontext(close_store)
    guard(app, settings)
    CSRFProtect(app)
    for _, _, blueprint in VIEWS:
        app.register_blueprint(blueprint)
    app.add_url_rule("/", "start", lambda: redirect(url_for("overview.overview")))
    app.context_processor(lambda: {"views": [(name, title) for name, title, _ in VIEWS]})
    app.register_error_handler(HTTPException, _wrong)
    app.register_error_handler(BerthError, _failed)
    return app


def _wrong(error: HTTPException) -> Response | tuple[str, int]:
    code = error.code or 500
    if code < HTTPStatus.BAD_REQUEST:
        return Response.force_type(error.get_response())
    return render_template("wrong.html", name=error.name, text=error.description), code


def _failed(error: BerthError) -> tuple[str, int]:
    text = f"{error.message}" + (f" ({error.hint})" if error.hint else "")
    return render_template("wrong.html", name="That failed", text=text), 500
