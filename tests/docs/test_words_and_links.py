"""Links, pictures and words of the documentation: what they name is there, in plain words."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "lab" / "published" / "README.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST = 400_000
INSTEAD = {
    r"\brivals?\b": "baselines", r"likeness": "similarity", r"front doors?": "front ends",
    r"\bbold\b(?! in)": "enforced", r"utili[sz]e\b": "use", r"in order to": "to",
    r"seperate": "separate", r"occured": "occurred", r"recieve": "receive",
    r"dependant": "dependent", r"existance": "existence", r"\bteh\b": "the",
    r"\b(the|a|is|of|to|and|in) \1\b": "the word once",
}  # fmt: skip
"""What is not written in this project's pages, and what is written instead."""


TERMS = ("namd", "mape", "statics", "ans", "fo", "te", "nd")
"""Words of the field that a list of misspellings takes for some."""
CHECKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]
AMERICAN = re.compile(
    r"\b(?:colors?|colored|behaviors?|centers?|centered|fibers?|gray"
    r"|canceled|labeled|modeling|modeled|traveled|neighbors?|favors?|catalogs?|artifacts?|licenses?"
    r"|(?:util|optim|summar|normal|organ|recogn|serial|initial|quant|general|minim|maxim|priorit"
    r"|character|real|emphas|special|synchron|vector|parallel)iz(?:e[ds]?|ing|ations?))\b",
    re.IGNORECASE,
)
"""American forms: the pages are in British English."""


def anchors(page: Path) -> set[str]:
    """As GitHub and Sphinx name headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(text))
    found = {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in plain}
    return found | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_is_there(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for is_picture, target in LINK.findall(text):
        if target.startswith(("http:", "https:", "mailto:")):
            assert target.startswith("https:"), f"{page.name}: {target}"
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name}: {target}"
        if is_picture and file.suffix == ".png":
            assert file.read_bytes().startswith(PNG)
            assert file.stat().st_size < LARGEST, f"{file.name} is too large for a page"


def test_spelling_is_right() -> None:
    """By codespell's list of misspellings; fields' own words are excused."""
    codespell = pytest.importorskip("codespell_lib", reason="needs the extra `dev`")
    said = io.StringIO()
    templates = sorted((ROOT / "plugin" / "ui" / "templates").glob("*.html"))
    words = ["--ignore-words-list", ",".join(TERMS), *map(str, [*CHECKED, *templates])]
    with contextlib.redirect_stdout(said):
        found = codespell.main(*words)
    assert found == 0, said.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_spelling_is_british_throughout(page: Path) -> None:
    text = re.sub(
        r"`[^`]*`|\"[^\"]{,80}\"|\]\([^)]*\)", "", FENCED.sub("", page.read_text(encoding="utf-8"))
    )
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert [word for line in prose for word in AMERICAN.findall(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_words_are_plain(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))
    for number, line in enumerate(text.splitlines(), 1):
        for wrong, right in INSTEAD.items():
            found = re.search(wrong, line, re.IGNORECASE)
            assert found is None, f"{page.name}:{number}: {found and found[0]!r}: write {right}"


def test_the_first_questions_are_three_clicks_away() -> None:
    """From the first page: to try, to install, to opt out, what it may change."""
    start = ROOT / "docs" / "index.md"
    wanted = {"start.md#try-it-here", "slurm.md", "flux.md", "faq.md#how-do-i-opt-out",
              "faq.md#what-may-it-change-in-my-job"}  # fmt: skip
    reached, pages = set[str](), [start]
    for _ in range(3):
        links = {t for page in pages for _, t in LINK.findall(page.read_text(encoding="utf-8"))}
        reached |= links
        pages = [p for t in links if (p := start.parent / t.partition("#")[0]).suffix == ".md"]
        pages = [page for page in pages if page.exists()]
    assert wanted <= reached


def test_the_index_has_four_doors_of_at_most_seven_pages_and_leaves_no_page_out() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    lists = re.findall(r":caption: (.*)\n(?:.*\n)*?\n((?:[a-z-]+\n)+)```", index)
    doors = {name: pages.split() for name, pages in lists}
    assert [name for name in doors if name.startswith("I ")] == [
        "I submit jobs", "I run a cluster", "I tune policy", "I build on Berth",
    ]  # fmt: skip
    assert all(len(pages) <= 7 for name, pages in doors.items() if name.startswith("I "))
    listed = [page for pages in doors.values() for page in pages]
    every = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert sorted(listed) == sorted(every)
