"""What a tune may say about GPUs that are cut into slices: how at first, and when anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from berth.policies.mig.hysteresis import Hysteresis
from berth.policies.replay.sliced import PATIENCE
from berth.policies.tuning.parameters import Parameter, Values

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
