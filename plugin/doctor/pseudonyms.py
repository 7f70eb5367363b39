"""Names of people and accounts in what is sent away: each becomes ``user-1``, ``account-2`` ..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from berth.plugin.scheduler import SCHEDULERS

SYSTEM_USERS = frozenset(("root", "berth", "munge", "nobody", *SCHEDULERS.names()))
_IN_URL = re.compile(r"(://[^:/@\s\"']*):[^\s\"']+@")
"""To the last ``@``: a password may hold one, and a slash."""
_NAMED = re.compile(r"(?i)((?:password|passwd|secret|token|api_?key)\s*[=:]\s*[\"']?)[^\s\"'&]+")


class Pseudonyms:
    """The same name is the same pseudonym in all that one of these rewrites."""

    def __init__(self, users: Iterable[str], accounts: Iterable[str] = ()) -> None:
        self._of: dict[str, str] = {}
        for kind, names in (("user", users), ("account", accounts)):
            for name in sorted({n for n in names if n} - SYSTEM_USERS - set(self._of)):
                self._of[name] = f"{kind}-{len(self._of) + 1}"
        longest_first = sorted(self._of, key=len, reverse=True)
        inside = "|".join(map(re.escape, longest_first))
        self._in_any_case = {name.casefold(): said for name, said in self._of.items()}
        words = rf"(?<![^\W_])(?:{inside})(?![^\W_])"
        self._pattern = re.compile(words, re.IGNORECASE) if inside else None

    def text(self, text: str) -> str:
        """``text`` with names of people and accounts replaced, where they stand as words.

        In any case, and as parts of names that people make: ``Alice_bert-2.onnx``.
        """
        return text if self._pattern is None else self._pattern.sub(self._said, text)

    def _said(self, found: re.Match[str]) -> str:
        name = found[0]
        return self._of.get(name) or self._in_any_case.get(name.casefold(), "user")

    def data(self, data: Any) -> Any:
        """The same in every text inside plain data; keys stay."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {key: self.data(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(value) for value in data]
        return data


def without_passwords(text: str) -> str:
    """``text`` with passwords replaced: ``postgresql://berth:***@host``, ``password=***``."""
    return _NAMED.sub(r"\1***", _IN_URL.sub(r"\1:***@", text))
