"""The text at a calibration's end: each platform before and after, and missing measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.pilot.network.links import in_words
from berth.pilot.node import doubts
from berth.plugin.calibrate.learning import Measured, Quality, qualities
from berth.plugin.calibrate.state import Folder
from berth.plugin.report.terminal import columns
from berth.plugin.site.site import Site
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS
from berth.predictor.families.program.time_only import timed


def qualities_of(
    site: Site, bundle: Path, measured: Mapping[str, Measured], reference: str
) -> dict[str, Quality]:
    """Return how well the site's platforms are known; nothing where the bundle cannot be read."""
    profiles = timed(reference, measured[reference].seconds)
    try:
        return qualities(
            bundle, profiles, site.platforms.get(reference), list(site.platforms.values())
        )
    except BerthError:
        return {}


def lines(
    site: Site,
    measured: Mapping[str, Measured],
    before: Mapping[str, Quality],
    after: Mapping[str, Quality],
    *,
    bundle_id: str,
    remarks: Sequence[str],
) -> Iterator[str]:
    """Yield the report as text."""
    yield ""
    header = ("platform", "nodes", "kernels", "interval before", "after", "basis", "places")
    yield columns(header, [_row(name, site, measured, before, after) for name in _names(site)])
    yield "(interval: upper / lower predicted time of a program on one core, median)"
    yield ""
    yield f"The filter can act on: {', '.join(_acting(site, after)) or 'no place yet'}."
    yield from remarks
    yield f"Bundle {bundle_id} is installed and named in {site.source}."


def as_json(
    site: Site,
    measured: Mapping[str, Measured],
    before: Mapping[str, Quality],
    after: Mapping[str, Quality],
    *,
    bundle_id: str,
    remarks: Sequence[str],
) -> dict[str, object]:
    """Return the report as plain data; intervals are upper / lower predicted time."""
    return {
        "bundle": bundle_id,
        "site_file": str(site.source),
        "platforms": [
            {
                "platform": name,
                "nodes": len(measured[name].nodes) if name in measured else 0,
                "kernels": measured[name].kernels if name in measured else 0,
                "interval_before": before[name].factor if name in before else None,
                "interval_now": after[name].factor if name in after else None,
                "basis": after[name].basis.value if name in after else None,
            }
            for name in _names(site)
        ],
        "acts_on": _acting(site, after),
        "remarks": list(remarks),
    }


def _acting(site: Site, after: Mapping[str, Quality]) -> list[str]:
    return [c.name for c in site.candidates if acted_on(site, c.platform, after)]


def remarks(
    site: Site, measured: Mapping[str, Measured], after: Mapping[str, Quality], folder: Folder
) -> Iterator[str]:
    """Yield what is to be known beside the table: of the nodes, of doubts, and what is missing."""
    for kind in measured.values():
        yield from _about(kind)
    for name in measured:
        yield from _links(name, folder)
        for result in folder.results(name):
            yield from (f"CHECK {name}: {text}." for text in doubts(result))
    yield from _missing(site, measured, after)


def acted_on(site: Site, platform: str, known: Mapping[str, Quality]) -> bool:
    """Tell whether the filter would act on a usual prediction for that platform."""
    quality = known.get(platform)
    if quality is None or (quality.basis is Basis.PRIOR and not site.policy.allow_prior):
        return False
    return quality.factor <= site.policy.max_interval_ratio


def _names(site: Site) -> list[str]:
    return list(dict.fromkeys(c.platform for c in site.candidates))


def _row(
    name: str,
    site: Site,
    measured: Mapping[str, Measured],
    before: Mapping[str, Quality],
    after: Mapping[str, Quality],
) -> tuple[str, ...]:
    own, quality = measured.get(name), after.get(name)
    return (
        name,
        "-" if own is None else str(len(own.nodes)),
        "-" if own is None else str(own.kernels),
        _factor(before.get(name)),
        _factor(quality),
        "-" if quality is None else quality.basis.value,
        ", ".join(c.name for c in site.candidates if c.platform == name),
    )


def _factor(quality: Quality | None) -> str:
    return "-" if quality is None else f"{quality.factor:.3g}x"


def _about(kind: Measured) -> Iterator[str]:
    name = kind.platform.name
    if kind.apart:
        remarks = ", ".join(
            f"{node} takes {kind.nodes[node]:.2f} times as long" for node in kind.apart
        )
        yield (
            f"CHECK {name}: its nodes differ: {remarks} as the middle of them. Nodes that are not "
            "alike need a platform each: give them their own candidate in the site file."
        )
    if kind.kernels < CALIBRATED_KERNELS:
        yield (
            f"CHECK {name}: only {kind.kernels} kernels ran: too few for an interval of its "
            "own; berth site calibrate --full measures all."
        )


def _links(name: str, folder: Folder) -> Iterator[str]:
    """Yield what connects two nodes of the kind, as the newest measurement has it."""
    for link in folder.links(name)[:1]:
        interconnect = link.interconnect
        assert interconnect is not None  # noqa: S101 - ``links`` are whole
        yield f"{name}: between {' and '.join(link.nodes)}: {in_words(interconnect)}."
        if link.without_mpi:
            yield (
                f"CHECK {name}: measured over TCP, which a faster network of MPI programs is not: "
                f"{link.without_mpi}."
            )


def _missing(
    site: Site, measured: Mapping[str, Measured], after: Mapping[str, Quality]
) -> Iterator[str]:
    for name in _names(site):
        places = ", ".join(c.name for c in site.candidates if c.platform == name)
        if name in measured:
            continue
        if site.platforms[name].is_gpu:
            yield (
                f"Missing: {name} ({places}) is known by its data sheet only; the filter acts on "
                "it with policy.allow_prior, or when programs have run there (berth train)."
                if not acted_on(site, name, after)
                else f"{name} ({places}) was not measured here: the shipped labels count."
            )
        else:
            yield f"Missing: {name} ({places}) was not measured."
