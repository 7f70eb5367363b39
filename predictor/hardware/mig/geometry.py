"""MIG geometry of a GPU model: slice profiles, their placements and their largest numbers.

A GPU instance occupies consecutive memory slices from one of its profile's placements; two
instances must not share a memory slice. Compute slices, instance limits and media engines (NVDEC,
NVENC, JPEG, OFA) are limits of the whole GPU. Source of the rules: NVIDIA's MIG user guide,
"Supported MIG Profiles". Where NVML differs at run time, NVML is right (``diff``).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes

_NAME = re.compile(r"(\d+)g\.(\d+)gb((?:[+-][a-z]+(?:\.[a-z]+)*)*)")


@dataclass(frozen=True, slots=True)
class Media:
    """Numbers of media engines (NVDEC, NVENC, JPEG, OFA) of a GPU instance or a GPU."""

    nvdec: int = 0
    nvenc: int = 0
    jpeg: int = 0
    ofa: int = 0

    def __iter__(self) -> Iterator[int]:
        yield from (self.nvdec, self.nvenc, self.jpeg, self.ofa)

    def __add__(self, other: Media) -> Media:
        return Media(*map(operator.add, self, other))

    def fits(self, capacity: Media) -> bool:
        """Return whether ``capacity`` has at least these numbers of media engines."""
        return all(map(operator.le, self, capacity))

    def at_least(self, other: Media) -> Media:
        return Media(*map(max, self, other))


@dataclass(frozen=True, slots=True)
class SliceProfile:
    """A profile of GPU instances, for example ``1g.5gb+me``."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_bytes: int
    """Memory that a program can use; a lower estimate where ``Geometry.memory_basis`` says so."""
    placements: tuple[int, ...]
    """Indices of memory slices at which an instance may start."""
    max_instances: int
    profile_id: int | None = None
    """GPU instance profile ID as ``nvidia-smi mig -cgi`` takes it; None if not documented."""
    media: Media = Media()
    multiprocessors: int | None = None
    other_name: str | None = None
    """Name of the profile in other versions of the driver or of NVIDIA's documents; None: none."""

    @property
    def suffix(self) -> str:
        """Return the suffix in the profile's name: ``"+me"``, ``"-me"``, ``"+gfx"``, ``""`` ..."""
        match = _NAME.fullmatch(self.name)
        return match.group(3) if match else ""

    @property
    def is_plain(self) -> bool:
        """Return whether the profile's name has no media or graphics suffix."""
        return not self.suffix

    def mask(self, start: int) -> int:
        """Return a bit mask of the memory slices that an instance at ``start`` occupies."""
        return ((1 << self.memory_slices) - 1) << start


@dataclass(frozen=True)
class Geometry:
    """The MIG slices that a GPU model (or a single GPU, as NVML describes it) supports."""

    gpu: str
    compute_slices: int
    memory_slices: int
    profiles: tuple[SliceProfile, ...]
    """Profiles in the table's order, small before large."""
    aliases: tuple[str, ...] = ()
    """Other names of the GPU model, such as the product names that NVML reports."""
    device_filters: tuple[str, ...] = ()
    """PCI device and vendor IDs in the form of mig-parted's ``device-filter``."""
    source: str = ""
    memory_basis: str = ""
    """Source of ``memory_bytes``; starts with ``estimate`` where they were not published."""
    placements_basis: str = ""

    @classmethod
    def from_profiles(cls, gpu: str, profiles: Iterable[SliceProfile]) -> Geometry:
        """Return the geometry with the profiles that NVML reports; the GPU's numbers of slices are
        those of its largest profile.

        Raises UsageError for no profiles, or a profile that does not fit on the GPU.
        """
        ordered = tuple(
            sorted(profiles, key=lambda p: (p.compute_slices, p.memory_slices, p.suffix))
        )
        if not ordered:
            raise UsageError(f"{gpu} offers no MIG profiles")
        memory = max(max(p.placements, default=0) + p.memory_slices for p in ordered)
        compute = max(p.compute_slices for p in ordered)
        geometry = cls(gpu, compute, memory, ordered, source="NVML", memory_basis="NVML",
                       placements_basis="NVML")  # fmt: skip
        geometry.check()
        return geometry

    def check(self) -> None:
        """Raise UsageError that names a duplicate profile or one that does not fit on the GPU."""
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
        """Return the GPU's MIG profiles by name."""
        return {p.name: p for p in self.profiles}

    def named(self, name: str) -> SliceProfile | None:
        """Return the profile with this name or other name; None: the GPU has no such profile."""
        own = self.by_name.get(name)
        return own or next((p for p in self.profiles if p.other_name == name), None)

    def profile(self, name: str) -> SliceProfile:
        """Return the profile with this name or other name.

        Raises UsageError that lists the GPU's profiles.
        """
        known = self.named(name)
        if known is None:
            names = ", ".join(self.by_name)
            raise UsageError(f"{self.gpu} has no MIG profile {name!r}", hint=f"it has {names}")
        return known

    def restricted(self, names: Iterable[str]) -> Geometry:
        """Return this geometry with only the named profiles, so that fewer layouts are possible.

        Raises UsageError for an unknown profile.
        """
        wanted = {self.profile(name).name for name in sorted(names)}
        # The media engines of the whole GPU must not shrink with the choice of profiles.
        narrowed = replace(self, profiles=tuple(p for p in self.profiles if p.name in wanted))
        narrowed.__dict__["media"] = self.media
        return narrowed

    def plain(self) -> Geometry:
        """Return this geometry without profiles with a media or graphics suffix."""
        return self.restricted(p.name for p in self.profiles if p.is_plain)

    @cached_property
    def media(self) -> Media:
        """Return the number of each media engine of the whole GPU.

        NVIDIA documents engines per profile only, so this is the largest number in any layout of
        plain profiles or any single profile. Plain profiles therefore never compete for engines;
        ``+me`` and ``+me.all`` do.
        """
        most = Media()
        for p in self.profiles:
            most = most.at_least(p.media)
        plain = tuple(p for p in self.profiles if p.is_plain)
        return most.at_least(_most_media(plain, self.compute_slices))


@lru_cache(maxsize=64)  # GPUs are read repeatedly, and their profiles do not change
def _most_media(profiles: tuple[SliceProfile, ...], compute_slices: int) -> Media:
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
class NvmlDifference:
    """A field of a profile whose value in NVML differs from Berth's table; NVML is right."""

    profile: str
    field: str
    table: object
    nvml: object

    def __str__(self) -> str:
        if self.field == "memory_bytes":
            sizes = [format_bytes(float(str(size))) for size in (self.nvml, self.table)]
            return f"{self.profile} has {sizes[0]} by NVML, {sizes[1]} by the table"
        return f"{self.profile}: {self.field} is {self.nvml} by NVML, {self.table} by the table"


_COMPARED = (
    "compute_slices", "memory_slices", "placements", "max_instances", "profile_id", "memory_bytes",
)  # fmt: skip


def diff(table: Geometry, nvml: Geometry) -> tuple[NvmlDifference, ...]:
    """Return the differences, profile by profile, between Berth's table and NVML's geometry.

    Fields that the table lacks (None) and memory sizes that it only estimates are not compared.
    Callers plan with ``nvml`` and report the differences.
    """
    differences = [
        NvmlDifference("GPU", field, getattr(table, field), getattr(nvml, field))
        for field in ("compute_slices", "memory_slices")
        if getattr(table, field) != getattr(nvml, field)
    ]
    for name in dict.fromkeys([*(p.name for p in table.profiles if not _renamed(p, nvml)),
                               *nvml.by_name]):  # fmt: skip
        ours, theirs = table.named(name), nvml.by_name.get(name)
        if ours is None or theirs is None:
            differences.append(NvmlDifference(name, "profile", *(
                "present" if p else "absent" for p in (ours, theirs))))  # fmt: skip
            continue
        for field in _COMPARED:
            was, now = getattr(ours, field), getattr(theirs, field)
            estimated = field == "memory_bytes" and table.memory_basis.startswith("estimate")
            if was != now and was is not None and now is not None and not estimated:
                differences.append(NvmlDifference(name, field, was, now))
    return tuple(differences)


def _renamed(profile: SliceProfile, nvml: Geometry) -> bool:
    return profile.name not in nvml.by_name and profile.other_name in nvml.by_name
