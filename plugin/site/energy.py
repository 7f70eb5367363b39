"""Power of a candidate: the mean watts of its GPUs and cores under load."""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.plugin.site.candidate_tables import CandidateTable
from berth.plugin.site.document import EnergyTable
from berth.predictor.footprint.energy import IDLE_SHARE


def powers(
    table: CandidateTable, platform: Platform, cores: int, energy: EnergyTable
) -> dict[str, float | None]:
    """Return the mean watts per GPU and per core under load: the candidate's, else its platform's.

    From a platform: idle power plus ``utilisation`` times the difference between full and idle
    power.
    """
    own = {"power_per_gpu_w": table.power_per_gpu_w, "power_per_core_w": table.power_per_core_w}
    load_w = platform.power_w
    if load_w is None:
        return own
    idle_w = IDLE_SHARE * load_w if platform.idle_power_w is None else platform.idle_power_w
    mean_w = min(idle_w, load_w) + max(0.0, load_w - idle_w) * energy.utilisation
    key, each = ("power_per_gpu_w", 1) if platform.is_gpu else ("power_per_core_w", cores)
    if own[key] is None:
        own[key] = mean_w / each
    return own
