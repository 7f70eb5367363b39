"""A page over a site with a store, asked without a network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from ui_store import decision

from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import PlacedRun, Store
from berth.plugin.ui.app import create_app
from berth.plugin.ui.guard import UiSettings
from berth.plugin.ui.overview import FIGURES, FINDINGS
from berth.plugin.ui.site import FIGURES as SITE_FIGURES


@pytest.fixture(autouse=True)
def _waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views wait for what is made beside them, and nothing of an earlier test is shown."""
    for made in (FINDINGS, FIGURES, SITE_FIGURES):
        monkeypatch.setattr(made, "_patience_s", 300.0)
        monkeypatch.setattr(made, "_fresh_s", 0.0)


@pytest.fixture
def settings(tmp_path: Path) -> UiSettings:
    """A site file beside a store with two users' decisions."""
    site = tmp_path / "berth.toml"
    site.write_text(DEMO_FILE.read_text() + f'\n[daemon]\nstore = "{tmp_path / "store.db"}"\n')
    store = Store.open(str(tmp_path / "store.db"))
    store.decisions.add([decision(1), decision(2, user="bob", workload="secret-of-bob")])
    store.outcomes.put([
        PlacedRun(
            "demo", "77", "alice", "completed", decision=decision(1).id, elapsed_s=11.0,
            predicted_low_s=8.0, predicted_s=10.0, predicted_high_s=14.0, platform="a100-40gb",
            end_s=time.time() - 100.0,
        )
    ])  # fmt: skip
    store.close()
    return UiSettings(site_file=site)


@pytest.fixture
def asking(settings: UiSettings) -> Callable[..., FlaskClient]:
    """``asking(**changes)`` of the settings: a client that came by 127.0.0.1."""

    def made(**changes: object) -> FlaskClient:
        app = create_app(replace(settings, **changes))  # type: ignore[arg-type]
        app.config["WTF_CSRF_ENABLED"] = False  # tests/plugin/ui/test_guard.py has it on
        client = app.test_client()
        client.environ_base.update({"HTTP_HOST": "127.0.0.1:8000", "HTTP_SEC_FETCH_SITE": "none"})
        return client

    return made
