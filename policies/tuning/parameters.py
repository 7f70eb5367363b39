"""What is tuned: settings of ``[policy]`` that decide between places, and how GPUs are cut into
slices, each with its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from berth.pilot.errors import UsageError
from berth.policies.mig.plan import Hysteresis
from berth.policies.objectives import OBJECTIVES
from berth.policies.replay.settings import PATIENCE
from berth.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting. ``name`` is its key in the site file, after ``policy.``, or of slices."""

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
    sliced: bool = False
    """It is about GPUs that are cut into slices, not of the policy."""
    recut: bool = False
    """It counts only where GPUs are cut anew."""

    def within(self, value: float | str) -> float | str:
        """The value, or the end of the range that is nearest."""
        return value if isinstance(value, str) else min(max(value, self.low), self.high)


LAYOUT, ENABLED = "layout", "trigger.enabled"
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
        Parameter(LAYOUT, sliced=True, why="how each GPU is cut at first"),
        Parameter(
            ENABLED, choices=("no", "yes"), sliced=True,
            why="yes: GPUs are cut anew for what waits and what is expected (berth mig auto)",
        ),
        Parameter(
            "trigger.min_dwell_s", 300.0, 14_400.0, log=True, sliced=True, recut=True,
            why="a longer time keeps a layout longer, and drains fewer GPUs",
        ),
        Parameter(
            "trigger.min_gain", 0.0, 0.5, sliced=True, recut=True,
            why="a larger gain cuts anew only where many more jobs find a slice",
        ),
    )
}  # fmt: skip
"""By name."""
Values = Mapping[str, float | str]


def chosen(names: Iterable[str], layouts: Sequence[str] = ()) -> tuple[Parameter, ...]:
    """The parameters of these names; all that matter where there are none.

    ``layouts``: of GPUs that are cut; empty: none is. Raises UsageError.
    """
    wanted = tuple(names)
    for name in wanted:
        if name not in PARAMETERS:
            raise UsageError(
                f"there is no parameter {name!r}", hint=f"there are: {', '.join(PARAMETERS)}"
            )
        if PARAMETERS[name].sliced and not layouts:
            raise UsageError(
                f"the parameter {name} is about slices, and the site cuts no GPUs of one model",
                hint="write slices into one candidate's table",
            )
    able = [one for one in PARAMETERS.values() if layouts or not one.sliced]
    return tuple(
        replace(one, choices=tuple(layouts)) if one.name == LAYOUT else one
        for one in ([PARAMETERS[name] for name in wanted] or able)
    )


def values_of(policy: PolicySettings, parameters: Iterable[Parameter]) -> dict[str, float | str]:
    """What ``policy`` has, within each range."""
    found: dict[str, float | str] = {}
    for one in parameters:
        if one.sliced or not matters(one, policy.objective):
            continue
        head, _, tail = one.name.rpartition(".")
        found[one.name] = one.within(getattr(getattr(policy, head) if head else policy, tail))
    return found


def settings_with(policy: PolicySettings, values: Values) -> PolicySettings:
    """``policy`` with these values; what they do not name stays, and what is of slices."""
    values = {name: value for name, value in values.items() if not PARAMETERS[name].sliced}
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


_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Slicing:
    """Of all GPUs that are cut. Its keys are those of ``[trigger]`` in the settings of slices."""

    layout: str = ""
    """Of each GPU at first; empty: they are not all alike, or none is cut."""
    recut: bool = False
    """Whether GPUs are cut anew while jobs come."""
    patience: Hysteresis = PATIENCE
    """When they are."""

    def values(self, parameters: Iterable[Parameter]) -> dict[str, float | str]:
        """By name, of those among ``parameters`` that it has."""
        has: Mapping[str, float | str] = {
            "layout": self.layout,
            "trigger.enabled": _YES if self.recut else _NO,
        }
        if self.recut:
            has = {
                **has,
                "trigger.min_dwell_s": self.patience.min_dwell_s,
                "trigger.min_gain": self.patience.min_gain,
            }
        return {
            one.name: one.within(has[one.name])
            for one in parameters
            if one.sliced and has.get(one.name, "") != ""
        }

    def with_values(self, values: Values) -> Slicing:
        """With those that are of slices; what they do not name stays."""
        return replace(
            self,
            layout=str(values.get("layout", self.layout)),
            recut=values.get("trigger.enabled", _YES if self.recut else _NO) == _YES,
            patience=Hysteresis(
                float(values.get("trigger.min_dwell_s", self.patience.min_dwell_s)),
                float(values.get("trigger.min_gain", self.patience.min_gain)),
            ),
        )
