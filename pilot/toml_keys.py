"""How deep the dotted keys of a TOML text are, before the text is parsed.

``tomllib`` takes time by the square of a key's parts: 0.1 s for 3 KB of dots.
"""

from __future__ import annotations

import re

# Strings that do not end count to the end of their line, or of the text: tomllib stops there.
_BASIC = r'"(?:[^"\\\n]++|\\.)*+"?'
_LITERAL = r"'[^'\n]*+'?"
_PART = rf"(?:[A-Za-z0-9_-]++|{_BASIC}|{_LITERAL})"
_DOT = r"[ \t]*+\.[ \t]*+"
_BASIC_LINES = r'"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}+'
_LITERAL_LINES = r"'''(?:[^']++|'(?!''))*+'{0,5}+"
_PASSED_OVER = rf"{_BASIC_LINES}|{_LITERAL_LINES}|#[^\n]*+"


def has_deeper_key(text: str, parts: int) -> bool:
    """Whether a key has more than so many parts (``a.b.c`` has three), in a table's name or not.

    Strings and comments are passed over; time is linear in the text, valid or not.
    """
    deeper = rf"(?P<deeper>{_PART}(?:{_DOT}{_PART}){{{parts}}})"
    tokens = re.compile(f"{_PASSED_OVER}|{deeper}|{_PART}(?:{_DOT}{_PART})*+", re.DOTALL)
    return any(found["deeper"] is not None for found in tokens.finditer(text))
