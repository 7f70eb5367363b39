"""Says what would have become of the jobs that were submitted in mode shadow."""

from __future__ import annotations

from berth.pilot.units import counted
from berth.plugin.store import Store

_MOST = 100_000
"""Number of the newest decisions that are counted."""
_SHOWN = 3


def would_have_changed(store: Store, since_s: float) -> str | None:
    """Return, in two sentences, how many jobs would have been changed since a Unix time, and where
    they would have gone; None: no job was submitted in mode shadow."""
    jobs = store.decisions.in_shadow(since_s, _MOST)
    if not jobs:
        return None
    every, stay = sum(jobs.values()), jobs.pop("", 0)
    would = every - stay
    text = f"{would:,} of {counted(every, 'job')} in mode shadow would have been changed"
    if would:
        places = sorted(jobs, key=lambda place: (-jobs[place], place))
        shown = ", ".join(f"{jobs[place]:,} to {place}" for place in places[:_SHOWN])
        others = sum(jobs[place] for place in places[_SHOWN:])
        text += f" ({shown}{f', {others:,} to others' if others else ''})"
    return f"{text}; {stay:,} would have stayed as written. None was changed."
