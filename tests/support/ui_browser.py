"""The page in a real Chromium: a tab, what it complained about, and whom it asked."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

CHROMIUM = shutil.which("chromium")
SERIOUS = ("serious", "critical")
NOT_HERE = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED IN A BROWSER: no chromium")
ATTACKER = "evil.example"
"""A name that the browser takes for this machine, as an attacker's name server would have it."""


@dataclass
class Browser:
    """A tab, what it complained about, and whom it asked."""

    tab: Any
    origin: str
    problems: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def open(self, address: str) -> None:
        """A view, by its address within the page."""
        answer = self.tab.goto(f"{self.origin}{address}")
        assert answer.status == 200, address

    def follow(self, selector: str) -> None:
        """Click a link or a form's button, and wait until the view it leads to is there."""
        with self.tab.expect_navigation():
            self.tab.click(selector)

    def screenshot(self, name: str, *, whole: bool = False) -> None:
        """For the documentation, in few colours: ``make screenshots`` says where."""
        folder = os.environ.get("BERTH_SCREENSHOTS")
        if folder:
            from PIL import Image

            path = Path(folder, f"{name}.png")
            self.tab.screenshot(path=path, type="png", full_page=whole)
            Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)

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

    def empty_pictures(self) -> list[str]:
        """Pictures that show nothing, by their words."""
        found: list[str] = self.tab.evaluate(
            "[...document.querySelectorAll('img.picture')]"
            ".filter(i => !i.complete || i.naturalWidth < 100).map(i => i.alt)"
        )
        return found


@contextmanager
def serving(app: Flask) -> Iterator[str]:
    waitress = pytest.importorskip("waitress")
    server = waitress.create_server(app, host="127.0.0.1", port=0)
    threading.Thread(target=server.run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()


@contextmanager
def browsing(origin: str) -> Iterator[Browser]:
    """A tab that has seen nothing yet; names of ``ATTACKER`` lead to this machine."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu",
                  f"--host-resolver-rules=MAP {ATTACKER} 127.0.0.1"],
        )  # fmt: skip
        # axe-core is put into the page by the test; the page's own policy is in test_ui_guard.
        tab = chromium.new_context(bypass_csp=True).new_page()
        tab.set_default_timeout(60_000)
        made = Browser(tab, origin)
        tab.on("console", lambda m: made.problems.append(m.text) if m.type == "error" else None)
        tab.on("pageerror", lambda error: made.problems.append(str(error)))
        tab.on("request", lambda asked: made.asked.add(asked.url))
        yield made
        chromium.close()
