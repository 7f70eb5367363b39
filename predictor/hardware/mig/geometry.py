"""What one GPU model can be cut into: slice profiles, where each may start, how many of each.

An instance occupies a run of memory slices beginning at one of its profile's placements; two
instances must not share a memory slice. Compute slices, the instance limits and the media
engines (NVDEC, NVENC, JPEG, OFA) are limits of the whole GPU. Source of the rules: NVIDIA's MIG
user guide, "Supported MIG Profiles"; at run time NVML has the last word (``diff``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from berth.pilot.errors import UsageError

_NAME = re.compile(r"(\d+)g\.(\d+)gb((?:[+-][a-z]+(?:\.[a-z]+)*)*)")


@dataclass(frozen=True, slots=True)
class Media:
    """Fixed-function engines of an instance (counts)."""

    nvdec: int = 0
    nvenc: int = 0
    jpeg: int = 0
    ofa: int = 0

    def __add__(self, other: Media) -> Media:
        return Media(
            self.nvdec + other.nvdec,
            self.nvenc + other.nvenc,
            self.jpeg + other.jpeg,
            self.ofa + other.ofa,
        )

    def fits(self, capacity: Media) -> bool:
        """Return whether no engine is asked for more often than ``capacity`` has it."""
        return (
            self.nvdec <= capacity.nvdec
            and self.nvenc <= capacity.nvenc
            and self.jpeg <= capacity.jpeg
            and self.ofa <= capacity.ofa
        )

    def at_least(self, other: Media) -> Media:
        """Return, engine by engine, the larger of the two."""
        return Media(
            max(self.nvdec, other.nvdec),
            max(self.nvenc, other.nvenc),
            max(self.jpeg, other.jpeg),
            max(self.ofa, other.ofa),
        )


@dataclass(frozen=True, slots=True)
class SliceProfile:
    """One kind of GPU instance, for example ``1g.5gb+me``."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_bytes: int
    """Memory that a program can use; an estimate from below where ``Geometry.memory_basis`` says
    so."""
    placements: tuple[int, ...]
    """Memory slices at which an instance may start."""
    max_instances: int
    profile_id: int | None = None
    """GPU instance profile id as ``nvidia-smi mig -cgi`` takes it; None: not documented."""
    media: Media = Media()
    multiprocessors: int | None = None

    @property
    def suffix(self) -> str:
        """Return ``"+me"``, ``"+me.all"``, ``"-me"``, ``"+gfx"`` or ``""``."""
        match = _NAME.fullmatch(self.name)
        return match.group(3) if match else ""

    @property
    def is_plain(self) -> bool:
        """Return whether its name has no media or graphics variant."""
        return not self.suffix

    def mask(self, start: int) -> int:
        """Return the memory slices that an instance at ``start`` occupies, as bits."""
        return ((1 << self.memory_slices) - 1) << start


@dataclass(frozen=True)
class Geometry:
    """The slices that a GPU model (or one GPU, as NVML describes it) can be cut into."""

    gpu: str
    compute_slices: int
    memory_slices: int
    profiles: tuple[SliceProfile, ...]
    """Profiles in the order of the table: small before large."""
    aliases: tuple[str, ...] = ()
    """Other names of the same geometry; product names as NVML reports them."""
    device_filters: tuple[str, ...] = ()
    """PCI device and vendor ids as mig-parted's ``device-filter`` writes them."""
    source: str = ""
    memory_basis: str = ""
    """Origin of ``memory_bytes``; begins with ``estimate`` where nobody published them."""
    placements_basis: str = ""

    @classmethod
    def from_profiles(
        cls,
        gpu: str,
        profiles: Iterable[SliceProfile],
        *,
        memory_slices: int | None = None,
        compute_slices: int | None = None,
        source: str = "NVML",
    ) -> Geometry:
        """Make a geometry from plain data, for example NVML's profile infos and placements.

        The numbers of slices are taken from the largest profile unless given.
        Raises UsageError when there is no profile or one does not lie within the GPU.
        """
        ordered = tuple(
            sorted(profiles, key=lambda p: (p.compute_slices, p.memory_slices, p.suffix))
        )
        if not ordered:
            raise UsageError(f"{gpu} offers no MIG profiles")
        memory = memory_slices or max(max(p.placements) + p.memory_slices for p in ordered)
        compute = compute_slices or max(p.compute_slices for p in ordered)
        geometry = cls(gpu, compute, memory, ordered, source=source, memory_basis=source,
                       placements_basis=source)  # fmt: skip
        geometry.check()
        return geometry

    def check(self) -> None:
        """Raise UsageError naming the profile that makes no sense."""
        seen = set()
        for p in self.profiles:
            if p.name in seen:
                raise UsageError(f"{self.gpu}: profile {p.name} is given twice")
            seen.add(p.name)
            ends = [start + p.memory_slices for start in p.placements]
            sane = p.memory_slices > 0 and p.compute_slices > 0 and p.max_instances > 0
            if not sane or not ends or min(p.placements) < 0 or max(ends) > self.memory_slices:
                raise UsageError(f"{self.gpu}: profile {p.name} does not lie within the GPU")

    @cached_property
    def by_name(self) -> dict[str, SliceProfile]:
        """Return profiles by name."""
        return {p.name: p for p in self.profiles}

    def profile(self, name: str) -> SliceProfile:
        """Return the profile of that name. Raises UsageError listing the existing ones."""
        known = self.by_name.get(name)
        if known is None:
            names = ", ".join(self.by_name)
            raise UsageError(f"{self.gpu} has no MIG profile {name!r}", hint=f"it has {names}")
        return known

    def restricted(self, names: Iterable[str]) -> Geometry:
        """Return the GPU with only these profiles (fewer states to enumerate)."""
        wanted = frozenset(names)
        for name in sorted(wanted):
            self.profile(name)
        # The media engines of the whole GPU must not shrink with the choice of profiles.
        narrowed = replace(self, profiles=tuple(p for p in self.profiles if p.name in wanted))
        narrowed.__dict__["media"] = self.media
        return narrowed

    def plain(self) -> Geometry:
        """Return the GPU without the media and graphics variants."""
        return self.restricted(p.name for p in self.profiles if p.is_plain)

    @cached_property
    def media(self) -> Media:
        """Return how many of each engine the GPU has: the most in any plain layout or profile.

        Derived, because NVIDIA documents engines per profile only. Plain profiles therefore
        never exclude each other by their engines; ``+me`` and ``+me.all`` do.
        """
        most = Media()
        for p in self.profiles:
            most = most.at_least(p.media)
        plain = tuple(p for p in self.profiles if p.is_plain)
        return most.at_least(_most_media(plain, self.compute_slices))


@lru_cache(maxsize=64)  # a GPU is read again and again, and its profiles stay
def _most_media(profiles: tuple[SliceProfile, ...], compute_slices: int) -> Media:
    """Return, engine by engine, the most that plain instances can hold at once."""
    most = Media()
    seen: set[tuple[int, int, Media]] = set()
    stack = [(0, 0, Media())]
    while stack:
        occupied, compute, media = stack.pop()
        most = most.at_least(media)
        for p in profiles:
            for start in p.placements:
                if not occupied & p.mask(start) and compute + p.compute_slices <= compute_slices:
                    nxt = (occupied | p.mask(start), compute + p.compute_slices, media + p.media)
                    if nxt not in seen:
                        seen.add(nxt)
                        stack.append(nxt)
    return most


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which NVML disagrees with the table; NVML is right."""

    profile: str
    what: str
    table: object
    nvml: object

    def __str__(self) -> str:
        return f"{self.profile}: {self.what} is {self.nvml} by NVML, {self.table} by the table"


_COMPARED = (
    "compute_slices", "memory_slices", "placements", "max_instances", "profile_id", "memory_bytes",
)  # fmt: skip


def diff(table: Geometry, nvml: Geometry) -> tuple[Difference, ...]:
    """Return where the two disagree by profile. Plan with ``nvml``, report the differences.

    Fields that the table does not know (None) and memory that it only estimates are no difference.
    """
    differences = [
        Difference("GPU", field, getattr(table, field), getattr(nvml, field))
        for field in ("compute_slices", "memory_slices")
        if getattr(table, field) != getattr(nvml, field)
    ]
    for name in dict.fromkeys([*table.by_name, *nvml.by_name]):
        ours, theirs = table.by_name.get(name), nvml.by_name.get(name)
        if ours is None or theirs is None:
            differences.append(Difference(name, "profile", *(
                "present" if p else "absent" for p in (ours, theirs))))  # fmt: skip
            continue
        for field in _COMPARED:
            was, now = getattr(ours, field), getattr(theirs, field)
            estimated = field == "memory_bytes" and table.memory_basis.startswith("estimate")
            if was != now and was is not None and now is not None and not estimated:
                differences.append(Difference(name, field, was, now))
    return tuple(differences)
