"""Names of people and accounts in what is sent away: each becomes ``user-1``, ``account-2`` ..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from berth.plugin.scheduler import SCHEDULERS

SYSTEM_USERS = frozenset(("root", "berth", "munge", "nobody", *SCHEDULERS.names()))
_PASSWORD = re.compile(r"(://[^:/@\s\"]+):[^@/\s\"]+@")


class Pseudonyms:
    """The same name is the same pseudonym in all that one of these rewrites."""

    def __init__(self, users: Iterable[str], accounts: Iterable[str] = ()) -> None:
        self._of: dict[str, str] = {}
        for kind, names in (("user", users), ("account", accounts)):
            for name in sorted({n for n in names if n} - SYSTEM_USERS - set(self._of)):
                self._of[name] = f"{kind}-{len(self._of) + 1}"
        longest_first = sorted(self._of, key=len, reverse=True)
        inside = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(rf"(?<![\w-])(?:{inside})(?![\w-])") if inside else None

    def text(self, text: str) -> str:
        """``text`` with names of people and accounts replaced, where they stand as words."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._of[found[0]], text)

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
    """``text`` with the passwords of URLs replaced: ``postgresql://berth:***@host``."""
    return _PASSWORD.sub(r"\1:***@", text)
