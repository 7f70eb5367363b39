"""Every code is explained in docs/reasons.md, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

from berth.policies import Code

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def test_every_code_is_explained_once() -> None:
    explained = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(code.value for code in Code)
