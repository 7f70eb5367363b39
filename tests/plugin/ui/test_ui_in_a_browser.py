"""Every view in a real Chromium: forms filled, files sent, no error, no request elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import convolutional
from ui_store import decision

from berth.plugin.report import page
from berth.plugin.report.of_replay import compared_parts
from berth.plugin.report.parts import Report
from berth.plugin.ui.settings import UiSettings
from berth.policies.tuning.figures import Figures

CHROMIUM = shutil.which("chromium")
FLEET = {
    "schema": "berth.mig-fleet/1",
    "gpus": [{"name": "n1/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"],
              "running": [{"instance": "1g.5gb@4"}]}],
}  # fmt: skip
SERIOUS = ("serious", "critical")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED IN A BROWSER: no chromium on PATH"),
    pytest.mark.timeout(400),
]


def replays() -> Report:
    """Two replays of a few jobs."""
    submit = np.arange(8.0) * 100.0
    wait, run = np.arange(8.0) * 10.0, np.full(8, 500.0)
    before, after = (
        Figures(submit, one, run, np.arange(8) % 3, run, run, run, np.zeros(8, int),
                ("alice", "bob", "carol"), ("cpu",))
        for one in (wait, wait / 2)
    )  # fmt: skip
    return Report("Replay of jobs", "", compared_parts(before, after, ("fcfs", "easy")))


@dataclass
class Browser:
    """A tab, what it complained about, and whom it asked."""

    tab: Any
    origin: str
    problems: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def open(self, address: str) -> None:
        answer = self.tab.goto(f"{self.origin}{address}")
        assert answer.status == 200, address

    def screenshot(self, name: str) -> None:
        """For the documentation: ``make screenshots`` says where."""
        folder = os.environ.get("BERTH_SCREENSHOTS")
        if folder:
            self.tab.screenshot(path=Path(folder, f"{name}.png"), type="png")

    def findings(self) -> list[str]:
        """What axe-core finds wrong for people who cannot see or point."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.tab).response["violations"]
        return [
            f"{one['id']}: {node['html'][:120]}"
            for one in found
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]


def what_if(browser: Browser) -> Any:
    """The report behind the first link of What if, in its frame."""
    browser.open("/what-if")
    browser.tab.click("main tbody a")
    assert browser.findings() == []
    frame = browser.tab.frame_locator("iframe")
    frame.locator("h1").wait_for()
    return frame


@pytest.fixture
def browser(settings: UiSettings, tmp_path: Path) -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    waitress = pytest.importorskip("waitress")
    from berth.plugin.ui.app import create_app

    (tmp_path / "reports").mkdir()
    fleet, report = tmp_path / "fleet.json", tmp_path / "reports" / "replay.html"
    fleet.write_text(json.dumps(FLEET))
    report.write_text(page.html(replays(), made_by="a test"))
    settings = replace(settings, fleet=fleet, reports=report.parent, actions=True)
    server = waitress.create_server(create_app(settings), host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        with sync_api.sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
            )
            # axe-core is put into the page by the test; the page's own policy is in test_ui_guard.
            tab = chromium.new_context(bypass_csp=True).new_page()
            tab.set_default_timeout(60_000)
            made = Browser(tab, f"http://127.0.0.1:{server.effective_port}")
            tab.on("console", lambda m: made.problems.append(m.text) if m.type == "error" else None)
            tab.on("pageerror", lambda error: made.problems.append(str(error)))
            tab.on("request", lambda asked: made.asked.add(asked.url))
            yield made
            chromium.close()
    finally:
        server.close()


def test_every_view_is_used_end_to_end(browser: Browser, tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(convolutional().SerializeToString())
    tab = browser.tab
    for view in ("place", "predict"):
        browser.open(f"/{view}")
        tab.set_input_files("input[type=file]", model)
        tab.click("main button")
        tab.wait_for_selector("#result")
        assert tab.locator("tbody tr").count() >= 2
        assert "sent=" in tab.url  # a link that can be opened again
        browser.screenshot(view)
        assert tab.locator("text=Link to this view").count() == 1
        assert tab.evaluate("document.querySelector('img.picture').naturalWidth") > 100
        assert browser.findings() == []
    browser.open("/place")
    tab.fill("#tasks", "-3")
    tab.set_input_files("input[type=file]", model)
    tab.click("main button")
    assert "at least 1" in tab.locator(".invalid-feedback").first.inner_text()

    browser.open("/jobs")
    tab.click(f"text={decision(1).id}")
    assert "predicted fastest" in tab.locator("main").inner_text()
    assert browser.findings() == []
    for view, shown in (
        ("/jobs", 0), ("/site", 2), ("/mig?gpu=A100-40GB", 1), ("/what-if", 0), ("/queue", 0),
        ("/actions", 0),
    ):  # fmt: skip
        browser.open(view)
        assert browser.findings() == []
        assert tab.locator("img.picture").count() == shown, view
        browser.screenshot(view.strip("/").partition("?")[0])
    framed = what_if(browser)
    assert framed.locator("img").count() >= 3
    assert framed.locator("table").count() >= 3
    assert browser.problems == []
    elsewhere = {url for url in browser.asked if not url.startswith((browser.origin, "data:"))}
    assert elsewhere == set()


def test_it_fits_a_narrow_screen_in_the_dark(browser: Browser) -> None:
    tab = browser.tab
    tab.set_viewport_size({"width": 360, "height": 740})
    tab.emulate_media(color_scheme="dark")
    for view in ("/place", "/jobs", "/site", "/mig?gpu=A100-40GB", "/actions"):
        browser.open(view)
        assert tab.evaluate("document.documentElement.dataset.bsTheme") == "dark"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, view
        assert browser.findings() == []
