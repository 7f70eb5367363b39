"""What is tuned: settings of ``[policy]`` that decide between places, each with its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from berth.pilot.errors import UsageError
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting. ``name`` is its key in the site file, after ``policy.``."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[str, ...] = ()
    """Of a setting that is a word; empty: it is a number."""
    objectives: tuple[str, ...] = ()
    """Those that look at it; empty: all."""
    why: str = ""
    """What a larger value does, for the report."""


PARAMETERS: Mapping[str, Parameter] = {
    one.name: one
    for one in (
        Parameter(
            "objective", choices=("fastest", "earliest", "balanced", "throughput-fair"),
            why="what the chosen place is best at",
        ),
        Parameter(
            "weights.wait", 0.0, 4.0, objectives=("fastest", "balanced", "throughput-fair"),
            why="a larger weight sends more jobs to places that are free now",
        ),
        Parameter(
            "weights.time", 0.0, 2.0, objectives=("balanced",),
            why="a larger exponent prefers fast places, whatever they cost",
        ),
        Parameter(
            "weights.cost", 0.0, 2.0, objectives=("balanced",),
            why="a larger exponent prefers cheap places, however slow",
        ),
        Parameter(
            "weights.energy", 0.0, 2.0, objectives=("balanced",),
            why="a larger exponent prefers places that draw little",
        ),
        Parameter(
            "alike_within", 1.0, 4.0, log=True,
            why="a larger factor lists more partitions: a job starts where it can first",
        ),
        Parameter(
            "time_margin", 1.0, 3.0, log=True,
            why="a larger margin keeps more jobs from places where their limit might kill them",
        ),
        Parameter(
            "max_interval_ratio", 2.0, 100.0, log=True,
            why="a larger ratio acts on less certain predictions",
        ),
    )
}  # fmt: skip
"""By name."""
Values = Mapping[str, float | str]


def chosen(names: Iterable[str]) -> tuple[Parameter, ...]:
    """The parameters of these names; all where there are none. Raises UsageError."""
    wanted = tuple(names) or tuple(PARAMETERS)
    for name in wanted:
        if name not in PARAMETERS:
            raise UsageError(
                f"there is no parameter {name!r}", hint=f"there are: {', '.join(PARAMETERS)}"
            )
    return tuple(PARAMETERS[name] for name in wanted)


def values_of(policy: PolicySettings, parameters: Iterable[Parameter]) -> dict[str, float | str]:
    """What ``policy`` has, within each range."""
    found: dict[str, float | str] = {}
    for one in parameters:
        if not matters(one, policy.objective):
            continue
        head, _, tail = one.name.rpartition(".")
        value = getattr(getattr(policy, head) if head else policy, tail)
        found[one.name] = value if one.choices else min(max(value, one.low), one.high)
    return found


def settings_with(policy: PolicySettings, values: Values) -> PolicySettings:
    """``policy`` with these values; what they do not name stays."""
    own = {name: value for name, value in values.items() if "." not in name}
    weights = {name.partition(".")[2]: v for name, v in values.items() if "." in name}
    changed = replace(policy, **own)  # type: ignore[arg-type]
    return replace(changed, weights=replace(changed.weights, **weights))  # type: ignore[arg-type]


def matters(parameter: Parameter, objective: str) -> bool:
    """Whether an objective looks at it."""
    return not parameter.objectives or objective in parameter.objectives


def possible(objective: str, *, prices: bool) -> bool:
    """Whether a site can use an objective in a tune."""
    OBJECTIVES.load(objective)
    return prices or objective != "balanced"
