"""What users have held of late, relative to what is theirs: fair share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

AT_SHARE = 1.0
"""Of users of whom nothing is known."""


@dataclass(frozen=True)
class UsedShares:
    """By user: use of late / fair share. 1: just its share; 0: nothing. Not to be changed."""

    by_user: Mapping[str, float]

    def of(self, user: str) -> float:
        """The user's; ``AT_SHARE`` where nothing is known."""
        return self.by_user.get(user, AT_SHARE)

    @cached_property
    def digest(self) -> str:
        """Equal for equal shares."""
        text = repr(sorted(self.by_user.items())).encode()
        return hashlib.blake2b(text, digest_size=8).hexdigest()
