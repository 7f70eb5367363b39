"""The tuned parameters with their ranges: settings of ``[policy]``, and partitioning of MIG
GPUs."""

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
    """A tuned setting; ``name`` is its key in the site file without ``policy.``, or a slice
    setting's key."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[str, ...] = ()
    """Possible values of the setting as text; empty: the setting is a number."""
    why: str = ""
    """Effect of a larger value, as text for the report."""
    sliced: bool = False
    """True: the setting concerns MIG GPUs, not the policy."""
    recut: bool = False
    """True: the setting has an effect only where MIG GPUs are re-partitioned."""
    by_name: bool = False
    """True: the setting guards jobs against wrong predictions; tuned only where it is named."""

    def within(self, value: float | str) -> float | str:
        """Return the value, limited to the parameter's range; text is returned unchanged."""
        return value if isinstance(value, str) else min(max(value, self.low), self.high)


LAYOUT, ENABLED = "layout", "trigger.enabled"
PARAMETERS: Mapping[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "objective", choices=("fastest", "earliest", "balanced"),
            why="what the chosen place is best at",
        ),
        Parameter(
            "weights.wait", 0.0, 4.0,
            why="a larger weight sends more jobs to places that are free now",
        ),
        Parameter(
            "weights.time", 0.0, 2.0,
            why="a larger exponent prefers fast places, whatever they cost",
        ),
        Parameter(
            "weights.cost", 0.0, 2.0,
            why="a larger exponent prefers cheap places, however slow",
        ),
        Parameter(
            "weights.energy", 0.0, 2.0,
            why="a larger exponent prefers places that draw little",
        ),
        Parameter(
            "alike_within", 1.0, 4.0, log=True,
            why="a larger factor lists more partitions: a job starts where it can first",
        ),
        Parameter(
            "time_margin", 1.0, 3.0, log=True, by_name=True,
            why="a larger margin keeps more jobs from places where their limit might kill them",
        ),
        Parameter(
            "max_interval_ratio", 2.0, 100.0, log=True, by_name=True,
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
"""All parameters, by name."""
Values = Mapping[str, float | str]


def chosen(names: Iterable[str], layouts: Sequence[str] = ()) -> tuple[Parameter, ...]:
    """Return the parameters with these names, or, where no name is given, all applicable ones but
    those that guard jobs (``by_name``).

    ``layouts``: the possible MIG layouts; empty: the site has no MIG GPUs (of one model). Raises
    UsageError for an unknown or inapplicable name.
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
    possible_parameters = [
        parameter
        for parameter in PARAMETERS.values()
        if not parameter.by_name and (layouts or not parameter.sliced)
    ]
    return tuple(
        replace(parameter, choices=tuple(layouts)) if parameter.name == LAYOUT else parameter
        for parameter in ([PARAMETERS[name] for name in wanted] or possible_parameters)
    )


def values_of(policy: PolicySettings, parameters: Iterable[Parameter]) -> dict[str, float | str]:
    """Return the present values of the policy's parameters by name, limited to each range."""
    values: dict[str, float | str] = {}
    for parameter in parameters:
        if parameter.sliced or not matters(parameter, policy.objective):
            continue
        head, _, tail = parameter.name.rpartition(".")
        values[parameter.name] = parameter.within(
            getattr(getattr(policy, head) if head else policy, tail)
        )
    return values


def settings_with(policy: PolicySettings, values: Values) -> PolicySettings:
    """Return ``policy`` with these values; slice settings and unnamed settings are unchanged."""
    values = {name: value for name, value in values.items() if not PARAMETERS[name].sliced}
    own = {name: value for name, value in values.items() if "." not in name}
    weights = {name.partition(".")[2]: v for name, v in values.items() if "." in name}
    return policy.model_copy(update={**own, "weights": policy.weights.model_copy(update=weights)})


def matters(parameter: Parameter, objective: str) -> bool:
    """Return whether the objective uses the parameter."""
    weight = parameter.name.removeprefix("weights.")
    return weight == parameter.name or weight in OBJECTIVES.load(objective).weights


_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Slicing:
    """Partitioning of all MIG GPUs: initial layout and re-partitioning rules; keys as in
    ``[trigger]``."""

    layout: str = ""
    """Initial layout of every MIG GPU; empty: layouts differ, or there are no MIG GPUs."""
    recut: bool = False
    """Whether GPUs are re-partitioned during the replay."""
    patience: Hysteresis = PATIENCE
    """When a new layout may replace the present one."""

    def values(self, parameters: Iterable[Parameter]) -> dict[str, float | str]:
        """Return the values of those parameters that concern slices, by name."""
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
            parameter.name: parameter.within(has[parameter.name])
            for parameter in parameters
            if parameter.sliced and has.get(parameter.name, "") != ""
        }

    def with_values(self, values: Values) -> Slicing:
        """Return the slicing with new values for slice parameters; missing ones keep their present
        values."""
        return replace(
            self,
            layout=str(values.get("layout", self.layout)),
            recut=values.get("trigger.enabled", _YES if self.recut else _NO) == _YES,
            patience=Hysteresis(
                float(values.get("trigger.min_dwell_s", self.patience.min_dwell_s)),
                float(values.get("trigger.min_gain", self.patience.min_gain)),
            ),
        )
