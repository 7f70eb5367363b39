"""Python's garbage collector, in small steps between answers instead of whenever it is due.

It looks at young objects once there are so many more than at its last look. Where answers that are
remembered take the places of older ones there are not more, so that all of them wait for one look:
60 to 80 ms at 800 new problem sizes a second. Nothing of ours makes cycles; libraries make some,
most of which are young when they end. So each step looks at what came since the last one, and never
again at what stays. Cycles that were older when they ended wait for a look at everything.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

YOUNG_OBJECTS = 10_000
"""More objects than at the last step: beyond it another thread's own allocations are looked at."""
_NEVER = 1_000_000_000
QUIET_AFTER_S = 600.0
"""Between two looks at everything, where nobody asks meanwhile."""
BUSY_AFTER_S = 6 * 3_600.0
"""Where somebody always does: a look takes some 0.2 s."""


class GarbageCollection:
    """For the answering thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._whole_s = monotonic()

    def start(self) -> None:
        """Leave the program itself, and what it has read so far, alone from now on."""
        self.look_at_everything()
        gc.set_threshold(YOUNG_OBJECTS, _NEVER, _NEVER)

    def rest(self, answers: int) -> None:
        """One step; ``answers``: given since the last one."""
        gc.collect(0)
        gc.freeze()
        since_s = self._monotonic() - self._whole_s
        if since_s >= (BUSY_AFTER_S if answers else QUIET_AFTER_S):
            self.look_at_everything()

    def look_at_everything(self) -> None:
        """Also at what earlier steps left alone."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._whole_s = self._monotonic()
