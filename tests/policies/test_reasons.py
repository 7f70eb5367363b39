"""Every code is explained in docs/reasons.md, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

from berth.policies import Code

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def test_every_code_is_explained_once() -> None:
    explained = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(code.value for code in Code)


def test_the_daemon_uses_no_other_codes() -> None:
    service = (PAGE.parents[1] / "plugin" / "daemon" / "service.py").read_text()
    written = set(re.findall(r"""Kept\(\s*"([a-z-]+)",""", service))
    assert written <= {code.value for code in Code}
