"""The smallest predicted energy."""

from __future__ import annotations

from berth.policies.codes import Code
from berth.policies.objectives import JobEstimate, Objective, ScoreTerm


class Greenest(Objective):
    """Joules, of what the job holds for as long as it is predicted to run."""

    name = "greenest"
    superlative = "is predicted to need least energy"
    comparative = "less energy"
    missing = (Code.NO_SCORE, "its energy is not known: the platform file gives no power")

    def score(self, estimate: JobEstimate) -> float | None:
        """See Objective. The predicted energy is that of a grid point: scaled to this time."""
        energy, predicted = estimate.prediction.energy_j, estimate.prediction.runtime_s
        return None if energy is None else energy.mid * estimate.runtime_s.mid / predicted.mid

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """See Objective."""
        joules, seconds = self.score(estimate) or 0.0, estimate.runtime_s.mid
        return (
            ScoreTerm("mean power", joules / seconds, "W"),
            ScoreTerm("predicted time", seconds, "s"),
        )
