"""Reasons in one sentence why a program's predictions should not be acted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.families.program.amdahl import busy_cores, cores_used, run_s
from berth.predictor.families.program.work import LINE_BYTES, Work
from berth.predictor.hardware.by_sheet import pilots_platform
from berth.predictor.hardware.ceilings import Allocation, Ceilings
from berth.predictor.hardware.core_speed import core_speed_doubt
from berth.predictor.hardware.processor_names import may_be_same_processor

LEAST_BUSY = 0.5
"""Average number of busy cores below which a program is considered to be mostly waiting."""
LEAST_JUDGED_S = 0.1
"""Shortest run time in seconds for which ``LEAST_BUSY`` is checked.

A shorter run is mostly program start, which waits for files.
"""
WAITS_FACTOR = 2.0
"""Factor within which a program is taken to wait as long on another CPU; assumed."""


MOST_FLOPS_PER_BYTE = 5.0
"""Floating-point operations per byte that the first-level cache fetches, up to which GPUs without
measured times were compared: 2.7 in `python -m lab unseen-gpus`, 5 in the bundle's kernels that use
memory."""
LEAST_PRIVATE_BYTES = 0.25
"""Bytes accessed per operation below which a program computes in registers alone."""


def private_arrays(work: Work) -> str | None:
    """Return a sentence if nothing tells how fast GPUs without measured times run this work; None:
    no reason.

    A program that computes much on data that stay in the first-level cache keeps private arrays,
    which a GPU spills to memory where its registers do not hold them: one kernel with a 12 x 12
    matrix a thread was 16 times faster on one card than on another of equal peaks.
    """
    flops = work.flops_f64 + work.flops_f32
    fetched = LINE_BYTES * (work.read_misses[0] + work.write_misses[0])
    if flops <= MOST_FLOPS_PER_BYTE * fetched or work.access_bytes < LEAST_PRIVATE_BYTES * flops:
        return None
    each = f"{flops / fetched:.0f}" if fetched else "all its"
    return (
        f"it computes {each} floating-point operations a byte that it fetches, on private data; "
        f"on GPUs without measured times only programs up to {MOST_FLOPS_PER_BYTE:g} were compared"
    )


def doubt_anywhere(profile: Profile, reference: Platform | None) -> str | None:
    """Return why predictions on any platform should not be acted on; None: no reason."""
    return (
        _incomplete(profile) or _undescribed(profile, reference) or _elsewhere(profile, reference)
    )


def notes_of_home(
    profile: Profile, known: Mapping[str, Platform], points: Sequence[Allocation]
) -> list[str]:
    """Return sentences on the platform of the pilot run: how much of its time was waiting, whether
    only a data sheet describes it, and at which ``points`` caches hold the run's data, which its
    own did not."""
    home, peak = pilots_platform(profile, known), profile.peak_memory_bytes
    notes: list[str] = []
    if waits := waiting_share(profile, home):
        notes.append(
            f"waits: it computed for {1 - waits:.0%} of its time; the rest is taken to last as "
            f"long elsewhere, within a factor of {WAITS_FACTOR:g}"
        )
    if home is not None and profile.platform not in known:
        speed = core_speed_doubt(home) or "the speed of its cores was measured"
        taken = f"{profile.platform!r} has no platform file: taken as {home.description}"
        notes.append(f"reference: {taken}; {speed}")
    if home is not None and peak is not None:
        run = Allocation(home, cores_used(profile, home))
        own, *fits = (peak <= Ceilings.of([run, *points]).l3_capacity).tolist()
        held = dict.fromkeys(p.platform.name for p, fit in zip(points, fits, strict=True) if fit)
        if held and not own:
            of = ", ".join(held)
            notes.append(f"caches: those of {of} hold the pilot's data; more data run slower there")
    return notes


def _undescribed(profile: Profile, reference: Platform | None) -> str | None:
    if reference is not None:
        return None
    return (
        f"it was measured on {profile.platform!r}, of which there is no platform file: how fast "
        "that is was assumed (berth pilot bench makes one)"
    )


def waiting_share(profile: Profile, reference: Platform | None) -> float:
    """Return the share of its time for which a program waits for something other than a processor,
    if it mostly does; else, and where that is not known, 0."""
    runs_on, took = profile.runs_on, run_s(profile)
    busy = busy_cores(profile, reference)
    if busy is None or took is None or runs_on.gpus or runs_on.ranks > 1:
        return 0.0
    return 0.0 if took < LEAST_JUDGED_S or busy >= LEAST_BUSY else 1.0 - busy


def _incomplete(profile: Profile) -> str | None:
    """Return a sentence if the pilot run failed or was cut short; None: the run completed."""
    failed = not profile.complete or profile.exit_status != 0
    return "the pilot run did not complete" if failed else None


def crowded(profile: Profile, point: Allocation, ran_on: Allocation) -> str | None:
    """Return a sentence if several MPI ranks would have to share a core, or did where the program
    was measured; None: each rank has a core.

    A rank that busy-waits keeps the other ranks on its core from running.
    """
    ranks = profile.runs_on.ranks
    for each, share in ((point, "would share"), (ran_on, "shared")):
        if not each.platform.is_gpu and each.units < ranks:
            cores = "1 core" if each.units == 1 else f"{each.units} cores"
            return f"its {ranks} ranks {share} {cores}, and ranks that wait keep a core busy"
    return None


def _elsewhere(profile: Profile, reference: Platform | None) -> str | None:
    """Return a sentence if the pilot ran on another processor model than its stated platform has.

    None: the processors can be the same, or one of them is unknown.
    """
    origin = profile.provenance
    if reference is None or origin.imported is not None:
        return None
    ran_on, expected = origin.host_cpu, reference.processor
    if not ran_on or not expected or reference.architecture in (ran_on, expected):
        return None  # where Linux tells no name, it is the architecture
    if may_be_same_processor(ran_on, expected):
        return None
    return f"it ran on {ran_on}, but platform {reference.name!r} is {expected}: pilot it there"
