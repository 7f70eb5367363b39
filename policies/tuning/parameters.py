"""The tuned parameters with their ranges: settings of ``[policy]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tuned setting; ``name`` is its key in the site file without ``policy.``."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[str, ...] = ()
    """Possible values of the setting as text; empty: the setting is a number."""
    why: str = ""
    """Effect of a larger value, as text for the report."""
    by_name: bool = False
    """True: the setting guards jobs against wrong predictions; tuned only where it is named."""

    def within(self, value: float | str) -> float | str:
        """Return the value, limited to the parameter's range; text is returned unchanged."""
        return value if isinstance(value, str) else min(max(value, self.low), self.high)


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
    )
}  # fmt: skip
"""All parameters, by name."""
Values = Mapping[str, float | str]


def chosen(names: Iterable[str]) -> tuple[Parameter, ...]:
    """Return the parameters with these names, or, where no name is given, all but those that guard
    jobs (``by_name``).

    Raises UsageError for an unknown name.
    """
    wanted = tuple(names)
    for name in wanted:
        if name not in PARAMETERS:
            raise UsageError(
                f"there is no parameter {name!r}", hint=f"there are: {', '.join(PARAMETERS)}"
            )
    named = tuple(PARAMETERS[name] for name in wanted)
    return named or tuple(each for each in PARAMETERS.values() if not each.by_name)


def values_of(policy: PolicySettings, parameters: Iterable[Parameter]) -> dict[str, float | str]:
    """Return the present values of the policy's parameters by name, limited to each range."""
    values: dict[str, float | str] = {}
    for parameter in parameters:
        if not matters(parameter, policy.objective):
            continue
        head, _, tail = parameter.name.rpartition(".")
        values[parameter.name] = parameter.within(
            getattr(getattr(policy, head) if head else policy, tail)
        )
    return values


def settings_with(policy: PolicySettings, values: Values) -> PolicySettings:
    """Return ``policy`` with these values; unnamed settings are unchanged."""
    own = {name: value for name, value in values.items() if "." not in name}
    weights = {name.partition(".")[2]: v for name, v in values.items() if "." in name}
    return policy.model_copy(update={**own, "weights": policy.weights.model_copy(update=weights)})


def matters(parameter: Parameter, objective: str) -> bool:
    """Return whether the objective uses the parameter."""
    weight = parameter.name.removeprefix("weights.")
    return weight == parameter.name or weight in OBJECTIVES.load(objective).weights
