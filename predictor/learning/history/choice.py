"""Which of several guesses to give a user: the one that was most accurate for that user lately.

The guesses are the best time by the weights, the same with flattened weights, and the median of the
last jobs of the same shape. Each user has decayed means of their accuracies, which begin at
the site's.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence

GUESSES = 3
_DECAY = 0.99
_PRIOR = 20.0
_SITE_STEP = 0.001
_USERS = 20_000


class Choice:
    """Accuracy of each guess by user."""

    def __init__(self) -> None:
        self._site = [0.6] * GUESSES
        self._users: OrderedDict[Hashable, tuple[list[float], float]] = OrderedDict()

    def of(self, user: Hashable) -> int:
        """The place of the guess to take."""
        sums, count = self._users.get(user, ([0.0] * GUESSES, 0.0))
        means = [
            (one + _PRIOR * site) / (count + _PRIOR)
            for one, site in zip(sums, self._site, strict=True)
        ]
        return means.index(max(means))

    def learn(self, user: Hashable, guesses: Sequence[float], real: float) -> None:
        """A job of the user ended; logarithms of times."""
        sums, count = self._users.pop(user, ([0.0] * GUESSES, 0.0))
        for place, guess in enumerate(guesses):
            accuracy = math.exp(-abs(real - guess))
            sums[place] = _DECAY * sums[place] + accuracy
            self._site[place] += _SITE_STEP * (accuracy - self._site[place])
        self._users[user] = (sums, _DECAY * count + 1.0)
        if len(self._users) > _USERS:
            self._users.popitem(last=False)
