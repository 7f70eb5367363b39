"""Every family of relative performance that ``python -m lab relative`` knows.

A family that needs an optional library is loaded inside its function and names the library:
it is left out, loudly, where that is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from berth.pilot.errors import UsageError
from berth.predictor.learning.relative.family import Entry, Family
from berth.predictor.learning.relative.law import LawFamily
from lab.datasets.aiwc import KINDS
from lab.relative.baselines import BASELINES
from lab.relative.committee import Committee


def _vae() -> Sequence[Family]:
    from lab.published.vae.family import VaeFamily  # noqa: PLC0415

    return (VaeFamily(),)


def _xamm() -> Sequence[Family]:
    from lab.published.xamm.families import FAMILIES  # noqa: PLC0415

    return FAMILIES


def _committee() -> Sequence[Family]:
    by_name = {family.name: family for family in BASELINES}
    return (Committee((LawFamily(kinds=KINDS), by_name["random forest"], by_name["ridge"])),)


ENTRIES: tuple[Entry, ...] = (
    Entry("baselines", lambda: BASELINES),
    Entry("law", lambda: (LawFamily(kinds=KINDS),)),
    Entry("committee", _committee, by_default=False),
    Entry("vae", _vae, needs=("torch",), by_default=False, slow=True),
    Entry("xamm", _xamm, needs=("torch", "xgboost"), by_default=False, slow=True),
)


def chosen(groups: Iterable[str] = ()) -> tuple[Entry, ...]:
    """The entries named, or the default ones. Raises UsageError for an unknown name."""
    wanted = tuple(groups)
    known = {entry.group for entry in ENTRIES}
    if unknown := sorted(set(wanted) - known):
        raise UsageError(
            f"there is no family group {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}"
        )
    return tuple(e for e in ENTRIES if (e.group in wanted if wanted else e.by_default))


def for_kinds(entries: Iterable[Entry], kinds: Mapping[str, str]) -> tuple[Entry, ...]:
    """The same for a site's platforms (name -> kind of hardware).

    Raises UsageError for xAMM, whose signatures here are AIWC's anchor kernels.
    """
    wanted = tuple(entries)
    if any(entry.group == "xamm" for entry in wanted):
        raise UsageError(
            "the group xamm is of the public data's anchor kernels",
            hint="`python -m lab xamm CONFIG` takes a site's own runs and benchmarks",
        )
    return tuple(replace(e, load=partial(_of_kinds, e.load, kinds)) for e in wanted)


def _of_kinds(load: Callable[[], Sequence[Family]], kinds: Mapping[str, str]) -> Sequence[Family]:
    return [_of(family, kinds) for family in load()]


def _of(family: Family, kinds: Mapping[str, str]) -> Family:
    if isinstance(family, LawFamily):
        return replace(family, kinds=kinds)
    if isinstance(family, Committee):
        return replace(family, members=[_of(member, kinds) for member in family.members])
    return family
