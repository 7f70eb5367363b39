"""Advises the MIG slice to try for a kind of GPU job, by what its past runs used.

How long a job takes on a slice is not predicted from its use, but bounded: while a kernel ran, the
slice's share of the GPU does the work of the whole, so a job that used its GPU for the share ``u``
of its time takes at most ``1 - u + u / share`` times as long. On MISO's runs (A100, 113 rows) that
holds for 96 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.pilot.run import Run
from berth.pilot.units import format_bytes
from berth.plugin.daemon.fitting import SLICE_WISH
from berth.plugin.history.workloads import stored_name_of
from berth.plugin.mig.recommending import SlicePredictions
from berth.plugin.site.schedulers import SCHEDULERS
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.workloads.filing import workload_in
from berth.policies.mig.recommend import recommend
from berth.predictor.families.history.workload import HistoryWorkload
from berth.predictor.families.slices.physics import most_log_slowdown, share_of
from berth.predictor.hardware.mig.slices import MARK, geometry_of


@dataclass(frozen=True, slots=True)
class SliceAdvice:
    """The smallest slice to try for a kind of job, and what speaks for it."""

    gpu: str
    profile: str
    runs: int
    gpu_peak_bytes: int
    """The largest GPU memory that a run used (bytes)."""
    slice_bytes: float
    gpu_utilisation: float
    """Share of the time with a kernel on the GPU: the most of the runs, 0 to 1."""
    slowdown_at_most: float
    """Bound of the time on the slice over that on the whole GPU."""
    submit: str
    """The submission that asks for such a slice; empty: this site offers none."""

    def sentence(self) -> str:
        """Return the advice with its reason, the submission for it, and the way back."""
        text = (
            f"try a {self.profile} of {self.gpu}: at most "
            f"{format_bytes(self.gpu_peak_bytes)} of its {format_bytes(self.slice_bytes)} and "
            f"{100 * self.gpu_utilisation:.0f} % of a whole GPU were used in {self.runs} runs; "
            f"at most {self.slowdown_at_most:.1f} times as long there"
        )
        if not self.submit:
            return f"{text} (this site has no such slices)"
        return f"{text}: {self.submit} (back to a whole GPU: without these options)"


def advise_slice(
    store: Store, site: Site | None, predictions: SlicePredictions, jobs: Sequence[Run]
) -> SliceAdvice | None:
    """Return the advice for one user's past jobs of one kind, the newest last.

    None: nothing is recorded of their use of one whole GPU, or no slice is large enough.
    """
    name = stored_name_of(store, jobs[-1]) if jobs and jobs[-1].gpus == 1 else None
    record = None if name is None else store.workload(name)
    document = None if record is None else workload_in(store, record).document
    if record is None or not isinstance(document, HistoryWorkload):
        return None
    whole = predictions.platforms.get(document.runs[-1].platform) if document.runs else None
    use = None if whole is None else document.gpu_use(whole.name)
    geometry = None if whole is None or whole.parent is not None else geometry_of(whole)
    peaks = [run.peak_gpu_bytes for run in document.runs if run.peak_gpu_bytes and run.gpus == 1]
    if whole is None or use is None or geometry is None or not peaks:
        return None
    try:
        known = predictions.on_slices(workload_in(store, record), geometry)
        smallest = recommend(known, geometry).smallest
    except UsageError:
        return None
    if smallest is None or smallest.part >= 1.0:
        return None
    profile = smallest.profile
    least_share = math.exp(-share_of(geometry, profile).most_log_slowdown)
    return SliceAdvice(
        gpu=geometry.gpu,
        profile=profile.name,
        runs=use.runs,
        gpu_peak_bytes=int(max(peaks)),
        slice_bytes=profile.memory_bytes,
        gpu_utilisation=use.most,
        slowdown_at_most=math.exp(most_log_slowdown(use.most, least_share)),
        submit=_submission(site, f"{whole.name}{MARK}{profile.name}"),
    )


def _submission(site: Site | None, platform: str) -> str:
    """Return the submission to a slice of this platform; empty: the site has no candidate of it, or
    its scheduler has no comments by which users ask for a slice."""
    offered = [] if site is None else [one for one in site.candidates if one.platform == platform]
    if site is None or not offered:
        return ""
    if "--comment" not in SCHEDULERS.load(site.scheduler).opt_out:
        return ""
    if site.auto_queue is not None:
        return f"sbatch --partition={site.auto_queue} --comment={SLICE_WISH}"
    gres = "" if offered[0].gres is None else f" --gres={offered[0].gres}:1"
    return f"sbatch --partition={offered[0].queue}{gres}"
