"""The documentation site and the man page: built without a warning, whole, and offline."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs the extra `docs`")

from berth.plugin.cli import COMMANDS, HIDDEN

DOCS = Path(__file__).resolve().parents[2] / "docs"
LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']([^"']+)""")
LINK = re.compile(r"""<a\b[^>]*?\bhref=["']([^"'#]+)""")


def build(kind: str, into: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet",
         "-b", kind, str(DOCS), str(into)],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return into


def test_the_site_is_whole_loads_nothing_from_elsewhere_and_leads_to_the_first_questions(
    tmp_path: Path,
) -> None:
    """A warning of the build (a dead link, say) is a failure."""
    site = build("html", tmp_path)
    pages = sorted(site.glob("*.html"))
    assert {page.stem for page in DOCS.glob("*.md")} <= {page.stem for page in pages}
    assert "calibrate" in (site / "searchindex.js").read_text()
    for page in pages:
        loaded = LOADED.findall(page.read_text(encoding="utf-8"))
        assert [one for one in loaded if one.startswith(("http:", "https:", "//"))] == [], page.name
    linked = set(LINK.findall((site / "index.html").read_text(encoding="utf-8")))
    assert {"start.html", "slurm.html", "flux.html", "faq.html"} <= linked
    questions = (site / "faq.html").read_text(encoding="utf-8")
    for anchor in ("how-do-i-opt-out", "what-may-it-change-in-my-job", "why-did-my-job-go-there"):
        assert f'id="{anchor}"' in questions


def test_the_man_page_has_every_command(tmp_path: Path) -> None:
    text = (build("man", tmp_path) / "berth.1").read_text(encoding="utf-8")
    for name in set(COMMANDS) - HIDDEN:
        heading = re.escape(name.replace("-", r"\-"))
        assert re.search(rf"^\.(?:SS|SH) {heading}\b", text, re.MULTILINE), name
