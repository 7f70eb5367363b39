"""The tasks: pairs of a reference platform and the target platform that is predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berth.pilot.platform import Platform
from berth.predictor.learning.programs.columns import LabelRows
from lab.kernels.examples import Example, columns


@dataclass(frozen=True, slots=True)
class Task:
    """Predict times on ``target`` from a run on ``reference`` and the pilot's counters."""

    name: str
    target: Platform
    reference: Platform
    reference_is_label: bool
    """The reference's time is the published one rather than our own pilot's."""

    def columns(self, examples: Sequence[Example]) -> LabelRows:
        """Return the rows of this task."""
        return columns(
            examples, self.target, self.reference, reference_is_label=self.reference_is_label
        )


def tasks(examples: Sequence[Example], platforms: Mapping[str, Platform]) -> tuple[Task, ...]:
    """Quartz core to V100 and, from our own machine, each labelled platform."""
    ours = platforms[examples[0].profile.platform]
    quartz, v100 = platforms["quartz"], platforms["lassen-v100"]
    return (
        Task("quartz core -> V100", v100, quartz, True),
        Task(f"{ours.name} -> quartz core", quartz, ours, False),
        Task(f"{ours.name} -> V100", v100, ours, False),
    )
