"""Power of a candidate: the mean watts of its GPUs and cores under load."""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.plugin.site.candidate_tables import CandidateTable


def powers(table: CandidateTable, platform: Platform, cores: int) -> dict[str, float | None]:
    """Return the mean watts per GPU and per core under load: the candidate's, else its
    platform's."""
    own = {"power_per_gpu_w": table.power_per_gpu_w, "power_per_core_w": table.power_per_core_w}
    load_w = platform.power_w
    if load_w is None:
        return own
    key, each = ("power_per_gpu_w", 1) if platform.is_gpu else ("power_per_core_w", cores)
    if own[key] is None:
        own[key] = load_w / each
    return own
