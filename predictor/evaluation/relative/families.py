"""Every family of relative performance that ``berth evaluate --task relative`` knows.

A family that needs an optional library is loaded inside its function and names the library:
it is left out, loudly, where that is absent.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from berth.pilot.errors import UsageError
from berth.predictor.training.relative.baselines import BASELINES
from berth.predictor.training.relative.committee import Committee
from berth.predictor.training.relative.family import Family
from berth.predictor.training.relative.law import LawFamily


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the registry: one or more families that come together."""

    group: str
    """What ``--family`` takes."""
    load: Callable[[], Sequence[Family]]
    needs: tuple[str, ...] = ()
    """Modules that must be installed."""
    by_default: bool = True
    """False: evaluated only when named."""
    slow: bool = False
    """True: networks that take seconds a fold; only the splits of few folds are evaluated."""

    @property
    def absent(self) -> tuple[str, ...]:
        """Needed modules that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def _vae() -> Sequence[Family]:
    from berth.predictor.training.relative.vae.family import VaeFamily  # noqa: PLC0415

    return (VaeFamily(),)


def _xamm() -> Sequence[Family]:
    from berth.predictor.training.relative.xamm.families import FAMILIES  # noqa: PLC0415

    return FAMILIES


def _committee() -> Sequence[Family]:
    by_name = {family.name: family for family in BASELINES}
    return (Committee((LawFamily(), by_name["random forest"], by_name["ridge"])),)


ENTRIES: tuple[Entry, ...] = (
    Entry("baselines", lambda: BASELINES),
    Entry("law", lambda: (LawFamily(),)),
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
            hint="`berth xamm` takes a site's own runs and benchmarks",
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
