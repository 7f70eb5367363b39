"""Every view in a real Chromium: forms filled, files sent, no error, no request elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask, Response, request
from small_models import convolutional
from ui_browser import ATTACKER, NOT_HERE, Browser, browsing, serving
from ui_site import at_work, lively

from berth.plugin.ui.app import create_app
from berth.plugin.ui.guard import UiSettings

pytestmark = [NOT_HERE, pytest.mark.timeout(400)]
PICTURES = {
    "/overview": 3,
    "/jobs": 0,
    "/queue": 1,
    "/site": 2,
    "/mig": 1,
}
"""How many each view shows."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UiSettings:
    """A site that has been used, with a queue."""
    at_work(monkeypatch)
    return lively(tmp_path)


@pytest.fixture
def browser(settings: UiSettings) -> Iterator[Browser]:
    with serving(create_app(settings)) as origin, browsing(origin) as made:
        yield made


def ready(browser: Browser, view: str) -> None:
    """The view, with what is made beside the answers."""
    browser.open(view)
    while "being re" in browser.tab.locator("main").inner_text():
        browser.open(view)


def sent(browser: Browser, view: str, model: Path) -> None:
    """The view's form with a file."""
    browser.open(f"/{view}")
    browser.tab.set_input_files("input[type=file]", model)
    browser.follow("main button")
    browser.tab.wait_for_selector("#result")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolutional().SerializeToString())
    return path


@pytest.mark.slow
def test_every_view_is_used_end_to_end(browser: Browser, model: Path) -> None:
    tab = browser.tab
    for view in ("place", "predict"):
        sent(browser, view, model)
        assert tab.locator("tbody tr").count() >= 2
        assert "sent=" in tab.url  # a link that can be opened again
        browser.screenshot(view)
        browser.screenshot(f"wide-{view}", whole=True)
        assert tab.locator("text=Link to this view").count() == 1
        assert tab.locator("img.picture").count() >= 1
        assert browser.empty_pictures() == []
        assert browser.findings() == []
    browser.open("/place")
    tab.fill("#tasks", "-3")
    tab.set_input_files("input[type=file]", model)
    browser.follow("main button")
    assert "at least 1" in tab.locator(".invalid-feedback").first.inner_text()

    browser.open("/jobs")
    browser.follow("main tbody a")
    assert "is predicted fastest" in tab.locator("main").inner_text()
    assert tab.locator("img.picture").count() == 1
    browser.screenshot("wide-job", whole=True)
    assert browser.empty_pictures() == []
    assert browser.findings() == []
    for view, shown in PICTURES.items():
        ready(browser, view)
        assert browser.findings() == []
        assert tab.locator("img.picture").count() == shown, view
        assert browser.empty_pictures() == [], view
        browser.screenshot(view.strip("/"))
        browser.screenshot(f"wide-{view.strip('/')}", whole=True)
    assert browser.problems == []
    elsewhere = {url for url in browser.asked if not url.startswith((browser.origin, "data:"))}
    assert elsewhere == set()


@pytest.mark.slow
def test_it_fits_a_narrow_screen_in_the_dark(browser: Browser, model: Path) -> None:
    tab = browser.tab
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.emulate_media(color_scheme="dark")

    def fits(view: str) -> None:
        assert tab.evaluate("document.documentElement.dataset.bsTheme") == "dark"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400, view
        assert browser.findings() == []
        browser.screenshot(f"narrow-{view.strip('/')}", whole=True)

    for view in PICTURES:
        ready(browser, view)
        fits(view)
    for view in ("place", "predict"):
        sent(browser, view, model)
        fits(view)
    browser.open("/jobs")
    lines = "e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)"
    moment = tab.locator("main tbody tr").first.locator("td").first
    assert moment.evaluate(lines) < 2, "a date stays in one line"
    browser.follow("main tbody a")
    fits("job")


ATTACK = """<!doctype html><title>You have won</title>
<form id="first" method="post" action="{origin}/predict" target="one"></form>
<form id="second" method="post" action="{origin}/place" target="two">
<input name="workload" value="app"></form>
<iframe name="one"></iframe><iframe name="two"></iframe><iframe src="{origin}/jobs"></iframe>
<img src="{origin}/predict?described=serve&billions=8"><script src="{origin}/jobs"></script>
<script>
for (const id of ["first", "second"]) document.getElementById(id).submit();
window.seen = [];
for (const mode of ["cors", "no-cors"])
  fetch("{origin}/jobs", {{mode, credentials: "include"}})
    .then(a => a.text()).then(t => window.seen.push(t), e => window.seen.push("refused"));
fetch("{origin}/predict", {{method: "POST", mode: "no-cors", credentials: "include"}})
  .then(a => a.text()).then(t => window.seen.push(t), e => window.seen.push("refused"));
</script>"""


def attacker(origin: str) -> Flask:
    """Another origin's page: it sends forms, frames, loads and asks, with the reader's cookie."""
    app = Flask("attacker")

    @app.route("/")
    def attack() -> Response:
        return Response(ATTACK.format(origin=origin), mimetype="text/html")

    return app


@pytest.mark.slow
def test_a_page_of_another_origin_can_do_and_see_nothing(
    settings: UiSettings,
) -> None:
    """With the cookie of an administrator who is logged in; by two names of this machine."""
    app = create_app(replace(settings, token="right"))  # noqa: S106
    seen: list[tuple[str, str, int]] = []

    @app.after_request
    def noted(answer: Response) -> Response:
        seen.append((request.method, request.path, answer.status_code))
        return answer

    with serving(app) as origin, serving(attacker(origin)) as other, browsing(origin) as browser:
        tab = browser.tab
        browser.open("/jobs?token=right")
        assert tab.locator("tbody tr").count() > 10  # could see it
        port = other.rpartition(":")[2]
        for foreign in (other, f"http://{ATTACKER}:{port}"):
            seen.clear()
            tab.goto(foreign)
            tab.wait_for_function("window.seen.length == 3")
            tab.wait_for_load_state("networkidle")
            assert set(tab.evaluate("window.seen")) <= {"", "refused"}
            assert {code for _, _, code in seen} <= {401, 403}, seen
            assert {"GET", "POST"} <= {method for method, _, _ in seen}
        rebound = tab.goto(f"http://{ATTACKER}:{origin.rpartition(':')[2]}/jobs?token=right")
        assert rebound.status == 403
        assert "not served by that name" in tab.content()
        browser.open("/jobs")
        assert tab.locator("tbody tr").count() > 10  # its own reader goes on
