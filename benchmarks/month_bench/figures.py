"""Tables of what each rule is worth, with intervals over users, and the aims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RULES = ("own", "list", "earliest start", "Berth", "oracle", "order alone", "kinds left out")
OTHERS = ("own", "list", "earliest start", "oracle")
MOST = 0.01
"""How much worse than the list Berth may be."""
_RESAMPLED = 2_000


class Outcome(NamedTuple):
    """A week on one site at one load; arrays have one entry per job, of all seeds in turn."""

    site: str
    load: float
    users: NDArray[np.str_]
    known: NDArray[np.bool_]
    """Whether its program has five completed runs or more on each of its kinds in the month."""
    answered: NDArray[np.bool_]
    hours: NDArray[np.float64]
    """[rules, jobs] from submission to end."""
    core_hours: NDArray[np.float64]
    """[rules, jobs]"""
    best_first: NDArray[np.bool_]
    """[2, jobs] whether the first place on idle queues is the job's best: of Berth, of the list."""

    @property
    def setting(self) -> str:
        return f"{self.site}, {self.load:.0%}"

    @property
    def more_core_hours(self) -> float:
        """Core-hours of Berth over those of the list, less 1."""
        hours = self.core_hours.sum(1)
        return float(hours[RULES.index("Berth")] / hours[RULES.index("list")] - 1)

    @property
    def right(self) -> NDArray[np.float64]:
        """[2] The shares of jobs whose first place is the best: of Berth, of the list."""
        return self.best_first.mean(1) if len(self.users) else np.ones(2)

    def of(self, jobs: NDArray[np.bool_]) -> Outcome:
        """The outcome of some of the jobs."""
        return Outcome(*self[:2], *(array[..., jobs] for array in self[2:]))


def joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Return several outcomes as one, with the site and load of the first."""
    each = list(outcomes)
    arrays = zip(*(one[2:] for one in each), strict=True)
    return Outcome(*each[0][:2], *(np.concatenate(parts, axis=-1) for parts in arrays))


class Change(NamedTuple):
    """A rule's mean hours over another's, less 1, with the 90 % interval of resampled users."""

    mid: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mid:+.1%} ({self.low:+.1%} to {self.high:+.1%})"


def change(outcome: Outcome, rule: str, other: str, *, by_user: bool = False) -> Change:
    """Compare two rules; ``by_user``: every user counts equally."""
    _, place = np.unique(outcome.users, return_inverse=True)
    counts = np.bincount(place)
    of_users = np.stack([
        np.bincount(place, outcome.hours[RULES.index(name)]) / (counts if by_user else 1)
        for name in (rule, other)
    ])  # fmt: skip
    even = np.full(len(counts), 1 / len(counts))
    drawn = np.random.default_rng(7).multinomial(len(counts), even, _RESAMPLED)
    one, two = of_users @ drawn.T
    mid = float(of_users[0].sum() / of_users[1].sum() - 1)
    return Change(mid, *np.quantile(one / two - 1, (0.05, 0.95)).tolist())


def tables(outcomes: Sequence[Outcome]) -> str:
    """Return all tables as text."""
    parts = [
        _table(
            "Mean hours from submission to end, by job",
            ("site, load", *RULES, "core-hours, Berth / list", "answered"),
            [
                (o.setting, *_numbers(o.hours.mean(1)), f"{o.more_core_hours:+.1%}",
                 f"{o.answered.mean():.1%}")
                for o in outcomes
            ],
        )
    ]  # fmt: skip
    for by in ("job", "user"):
        rows = [
            (o.setting, *(str(change(o, "Berth", rule, by_user=by == "user")) for rule in OTHERS))
            for o in outcomes
        ]
        parts.append(_table(f"Berth against each, by {by}", ("site, load", *OTHERS), rows))
    rows = []
    for outcome in _sites(outcomes):
        known = outcome.of(outcome.known)
        shares = (*_percent(1 - outcome.right), *_percent(1 - known.right))
        rows.append((outcome.site, *shares, str(len(known.users))))
    header = ("site", "Berth", "list", "Berth, known programs", "list, known programs", "of jobs")
    parts.append(_table("First place not the job's best on idle queues", header, rows))
    parts.append(_table("Aims", ("figure", "aim", "is"), _aims(outcomes)))
    return "\n".join(parts)


def _aims(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    upper = {o.setting: change(o, "Berth", "list").high for o in outcomes}
    more = {o.setting: o.more_core_hours for o in outcomes}
    rows = []
    for figure, values in (("upper end of the interval", upper), ("core-hours", more)):
        worst, held = max(values, key=values.__getitem__), sum(v <= MOST for v in values.values())
        rows.append((f"against the list: {figure}", f"<= {MOST:+.0%} in all {len(values)}",
                     f"{held} hold; worst {values[worst]:+.1%} ({worst})"))  # fmt: skip
    for site in (o.site for o in _sites(outcomes) if o.known.any() and o.site != "constant"):
        known = joined(o.of(o.known) for o in outcomes if o.site == site)
        berth, oracle, order, left_out = (
            change(known, rule, "list") for rule in ("Berth", *RULES[-3:])
        )
        rows.append((f"{site}, known programs: against the list",
                     "half of the oracle's gain, interval below 0",
                     f"{berth}: {berth.mid / oracle.mid:.0%} of {oracle.mid:+.1%}; by true times "
                     f"the order alone of their lists gains {order.mid / oracle.mid:.0%} of it, "
                     f"kinds left out of them {left_out.mid / oracle.mid:.0%}"))  # fmt: skip
    for five in (o for o in _sites(outcomes) if o.site == "five"):
        (berth, listed), known = five.right, five.of(five.known).right[0]
        rows.append(("five: first place the job's best", f">= {listed:.1%}", f"{berth:.1%}"))
        rows.append(("five, known programs: the same", ">= 95.0%", f"{known:.1%}"))
    return rows


def _sites(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """One outcome of each site."""
    return list({o.site: o for o in outcomes}.values())


def _numbers(values: NDArray[np.float64]) -> list[str]:
    return [f"{value:.2f}" for value in values.tolist()]


def _percent(values: NDArray[np.float64]) -> list[str]:
    return [f"{value:.1%}" for value in values.tolist()]


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return f"\n## {title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)
