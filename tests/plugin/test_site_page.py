"""docs/site-file.md says what the code does: its keys are the code's, its example is accepted."""

from __future__ import annotations

import re
from pathlib import Path

from berth.plugin.site import load_site
from berth.plugin.site.reference import with_keys

PAGE = Path(__file__).parents[2] / "docs" / "site-file.md"


def test_the_tables_of_keys_are_in_step() -> None:
    page = PAGE.read_text()
    assert with_keys(page) == page, "run: python -m berth.plugin.site.reference docs/site-file.md"


def test_the_example_is_accepted(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    path = tmp_path / "berth.toml"
    path.write_text(example.group(1))
    site = load_site(path)
    assert [c.name for c in site.candidates] == ["rome", "a100"]
