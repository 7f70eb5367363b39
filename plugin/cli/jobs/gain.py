"""``berth jobs outcomes --gain`` in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from berth.pilot.errors import UsageError
from berth.pilot.units import format_elapsed
from berth.plugin.cli.output.columns import columns
from berth.plugin.store.records import EndedJob

if TYPE_CHECKING:
    from berth.plugin.outcomes.gain import Gain, Gains
    from berth.plugin.site.site import Site
    from berth.plugin.store import Store

GAIN = ("JOBS", "ENDED", "PROGRAMS", "RAN", "ELSEWHERE", "SAVED", "90 %", "FASTER", "90 %")
_GROUPS = {"placed": "placed by Berth", "kept": "left where asked"}


def gains_of(
    store: Store, found: Sequence[EndedJob], site: Site | None, against: str | None
) -> Gains:
    """Of the newest ``gain.MOST`` jobs. Raises UsageError where there is no place to compare
    with."""
    from berth.plugin.outcomes.gain import MOST, gains  # noqa: PLC0415 - numpy

    names = (against,) if against is not None else reference_names(site)
    if not names:
        more = "or a site file" if site is None else "or name site.reference_partition in the file"
        raise UsageError(
            "there is no place to compare with", hint=f"give --against CANDIDATE, {more}"
        )
    if against is not None and site is not None:
        known = [candidate.name for candidate in site.candidates]
        if against not in known:
            raise UsageError(
                f"the site has no candidate {against!r}", hint=f"there are: {', '.join(known)}"
            )
    newest = found[-MOST:]
    decisions = store.decisions.rankings({o.decision for o in newest if o.decision})
    return gains(newest, decisions, names)


def reference_names(site: Site | None) -> tuple[str, ...]:
    """Candidates of the partition that pilots run in: where who knows nothing sends jobs."""
    if site is None or site.reference_queue is None:
        return ()
    return tuple(c.name for c in site.candidates if c.queue == site.reference_queue)


def gain_text(found: Gains) -> str:
    """A table, and what it does not say."""
    lines = []
    if found.groups:
        lines.append(columns(GAIN, [gain_cells(one) for one in found.groups], indent=0))
    return "\n".join([*lines, *gain_notes(found)])


def gain_notes(found: Gains) -> list[str]:
    """What the table does not say, in sentences."""
    lines = []
    if not found.groups:
        lines.append("no job has both a measured time and a prediction for another place")
    corrected = {place: factor for one in found.groups for place, factor in one.corrections.items()}
    for place, factor in sorted(corrected.items()):
        if factor != 1.0:
            lines.append(
                f"predictions for {place} are taken times {factor:.2f}: so long took what ran there"
            )
    if found.not_completed:
        lines.append(f"{found.not_completed} placed jobs did not complete: not counted here")
    if found.not_comparable:
        lines.append(f"{found.not_comparable} jobs have no prediction for the other place")
    if found.groups:
        lines.append(
            "ELSEWHERE is predicted, not measured, and jobs are moved where it is predicted to be "
            "long: what was saved is rather less than more"
        )
    return lines


def gain_cells(one: Gain) -> list[str]:
    """One group's line, under ``GAIN``."""
    interval, speedup = one.saved_interval_s, one.speedup_interval
    return [
        _GROUPS[one.group], str(one.jobs), str(one.programs), _hours(one.real_s),
        _hours(one.other_s), _hours(one.saved_s),
        "-" if interval is None else f"{_hours(interval[0])} to {_hours(interval[1])}",
        f"{one.speedup:.2f} x",
        "-" if speedup is None else f"{speedup[0]:.2f} to {speedup[1]:.2f}",
    ]  # fmt: skip


def _hours(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{format_elapsed(abs(seconds))}"
