"""The documentation site and the man page: built without a warning, whole, and offline."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs the extra `docs`")

from berth.plugin.cli.tree import COMMANDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']([^"']+)""")
TARGET = re.compile(r"""<a\b[^>]*?\bhref=["']([^"':]+)["']""")


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


@pytest.mark.slow
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
    clicks = clicks_from(site / "index.html")
    for wanted in (
        "start.html#try-it-here", "slurm.html", "flux.html", "faq.html#how-do-i-opt-out",
        "faq.html#what-may-it-change-in-my-job", "faq.html#why-did-my-job-go-there",
        "faq.html#how-do-i-undo-what-it-did", "faq.html#what-happens-when-it-is-down",
    ):  # fmt: skip
        name, _, anchor = wanted.partition("#")
        assert clicks[wanted] <= 3, wanted
        assert not anchor or f'id="{anchor}"' in (site / name).read_text(encoding="utf-8"), wanted


def clicks_from(index: Path) -> dict[str, int]:
    """How many links must be followed from a page to each address of the built site."""
    found, pages = {index.name: 0}, [index]
    for page in pages:
        for target in TARGET.findall(page.read_text(encoding="utf-8")):
            name = target.partition("#")[0] or page.name
            address = target if target.partition("#")[0] else f"{page.name}{target}"
            one_more = found[page.name] + 1
            found[address] = min(one_more, found.get(address, one_more))
            there = index.parent / name
            if there not in pages and there.is_file() and there.suffix == ".html":
                found[name] = one_more
                pages.append(there)
    return found


@pytest.mark.slow
def test_the_man_page_has_every_command(tmp_path: Path) -> None:
    text = (build("man", tmp_path) / "berth.1").read_text(encoding="utf-8")
    for name in COMMANDS:
        heading = re.escape(name.replace("-", r"\-"))
        assert re.search(rf"^\.(?:SS|SH) {heading}\b", text, re.MULTILINE), name
    assert "exit status" in text.lower()
    for status in ("0", "1", "2", "130", "141"):
        assert re.search(rf"^{status}$", text, re.MULTILINE), status
