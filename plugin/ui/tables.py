"""Tables of a page: a header, rows of text, and which rows are only guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header. All text is escaped by the template."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    doubtful: Sequence[bool] = ()
    """By row: shown apart, as nothing to act on."""
    links: Sequence[str | None] = ()
    """By row: where its first cell leads."""

    def is_doubtful(self, index: int) -> bool:
        """Whether row ``index`` is only a guess."""
        return index < len(self.doubtful) and self.doubtful[index]

    def link(self, index: int) -> str | None:
        """Where the first cell of row ``index`` leads."""
        return self.links[index] if index < len(self.links) else None
