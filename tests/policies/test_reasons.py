"""Every code is explained in docs/reasons.md, nothing else is, and each has its place."""

from __future__ import annotations

import re
from pathlib import Path

from berth.policies.codes import CHECKED_IN_ORDER, Code

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def test_every_code_is_explained_once() -> None:
    explained = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(code.value for code in Code)


def test_the_daemon_uses_no_other_codes() -> None:
    service = (PAGE.parents[1] / "plugin" / "daemon" / "service.py").read_text()
    written = set(re.findall(r"""Kept\(\s*"([a-z-]+)",""", service))
    assert written <= {code.value for code in Code}


def test_every_reason_to_rule_a_place_out_has_its_place_in_the_order() -> None:
    names = list(Code)
    of_candidates = set(names[names.index(Code.CANNOT_RUN) :]) | {Code.UNTYPED_GPU}
    assert set(CHECKED_IN_ORDER) == of_candidates
    assert len(CHECKED_IN_ORDER) == len(of_candidates)
