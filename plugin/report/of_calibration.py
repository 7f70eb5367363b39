"""Reports a calibration: each platform before and after, and what is missing or doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.network.links import in_words
from berth.plugin.calibrate.learning import FitQuality, Measured
from berth.plugin.calibrate.state import Folder
from berth.plugin.report.parts import Column, Part, Table
from berth.plugin.site.site import Site
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS


@dataclass(frozen=True, slots=True)
class CalibratedPlatform:
    """One platform of a site at a calibration's end."""

    name: str
    places: tuple[str, ...]
    measured: Measured | None
    """None: no node of it was measured."""
    before: FitQuality | None
    """How well the site's earlier bundle knows it; None: not at all."""
    after: FitQuality | None
    is_acted_on: bool
    """Whether the filter would act on a usual prediction for it."""


PLATFORMS: tuple[Column[CalibratedPlatform], ...] = (
    Column("Platform", "platform", lambda row: row.name),
    Column("Nodes", "nodes", lambda row: len(row.measured.nodes) if row.measured else 0,
           kind=float),
    Column("Kernels", "kernels", lambda row: row.measured.kernels if row.measured else 0,
           kind=float),
    Column("Interval before", "interval_before",
           lambda row: row.before.factor if row.before else None, "{:.3g}x".format, kind=float),
    Column("After", "interval_now",
           lambda row: row.after.factor if row.after else None, "{:.3g}x".format, kind=float),
    Column("Basis", "basis", lambda row: row.after.basis.value if row.after else None),
    Column("Places", "places", lambda row: list(row.places), ", ".join, kind=list[str]),
)  # fmt: skip
"""The columns of platforms; intervals are upper / lower predicted time."""


def calibrated_platforms(
    site: Site,
    measured: Mapping[str, Measured],
    before: Mapping[str, FitQuality],
    after: Mapping[str, FitQuality],
) -> list[CalibratedPlatform]:
    """Return the site's platforms in the order of its candidates."""
    places: dict[str, list[str]] = {}
    for candidate in site.candidates:
        places.setdefault(candidate.platform, []).append(candidate.name)

    def is_acted_on(quality: FitQuality | None) -> bool:
        if quality is None or (quality.basis is Basis.PRIOR and not site.policy.allow_prior):
            return False
        return quality.factor <= site.policy.max_interval_ratio

    return [
        CalibratedPlatform(
            name, tuple(names), measured.get(name), before.get(name), after.get(name),
            is_acted_on(after.get(name)),
        )
        for name, names in places.items()
    ]  # fmt: skip


def calibration_part(data: Mapping[str, Any], platforms: Sequence[CalibratedPlatform]) -> Part:
    """Return the table of platforms, and the sentences of ``calibration_data``."""
    notes = [
        "(interval: upper / lower predicted time of a program on one core, median)",
        f"The filter can act on: {', '.join(data['acts_on']) or 'no place yet'}.",
        *data["remarks"],
        f"Bundle {data['bundle']} is installed and named in {data['site_file']}.",
        data["forecasts"],
    ]
    return Part("", tables=[Table("Platforms", PLATFORMS, platforms)], notes=notes)


def calibration_data(
    site: Site,
    platforms: Sequence[CalibratedPlatform],
    folder: Folder,
    *,
    bundle_id: str,
    forecasts: str,
) -> dict[str, Any]:
    """Return a calibration's result for JSON; ``forecasts``: a sentence on those made anew."""
    acting = {row.name for row in platforms if row.is_acted_on}
    return {
        "bundle": bundle_id,
        "site_file": str(site.source),
        "platforms": Table("Platforms", PLATFORMS, platforms).data(),
        "acts_on": [place.name for place in site.candidates if place.platform in acting],
        "remarks": list(_remarks(site, platforms, folder)),
        "forecasts": forecasts,
    }


def _remarks(site: Site, platforms: Sequence[CalibratedPlatform], folder: Folder) -> Iterator[str]:
    measured = {row.name: row.measured for row in platforms if row.measured is not None}
    for name, kind in measured.items():
        yield from _about_nodes(name, kind)
    for name in measured:
        yield from _about_links(name, folder)
    for row in platforms:
        if row.measured is None:
            yield _about_missing(row, is_gpu=site.platforms[row.name].is_gpu)


def _about_nodes(name: str, kind: Measured) -> Iterator[str]:
    if kind.apart:
        ratios = ", ".join(
            f"{node} takes {kind.nodes[node]:.2f} times as long" for node in kind.apart
        )
        yield (
            f"CHECK {name}: its nodes differ: {ratios} as the middle of them. Nodes that are not "
            "alike need a platform each: give them their own candidate in the site file."
        )
    if kind.kernels < CALIBRATED_KERNELS:
        yield (
            f"CHECK {name}: only {kind.kernels} kernels ran: too few for an interval of its "
            "own; berth site calibrate --full measures all."
        )


def _about_links(name: str, folder: Folder) -> Iterator[str]:
    for link in folder.links(name)[:1]:
        interconnect = link.interconnect
        assert interconnect is not None  # noqa: S101 - ``links`` are whole
        yield f"{name}: between {' and '.join(link.nodes)}: {in_words(interconnect)}."
        if link.without_mpi:
            yield (
                f"CHECK {name}: measured over TCP, which a faster network of MPI programs is not: "
                f"{link.without_mpi}."
            )


def _about_missing(row: CalibratedPlatform, *, is_gpu: bool) -> str:
    subject = f"{row.name} ({', '.join(row.places)})"
    if not is_gpu:
        return f"Missing: {subject} was not measured."
    if row.is_acted_on:
        return f"{subject} was not measured here: the shipped labels count."
    return (
        f"Missing: {subject} is known by its data sheet only; the filter acts on it with "
        "policy.allow_prior, or when programs have run there (berth train)."
    )
