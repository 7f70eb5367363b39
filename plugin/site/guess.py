"""Which shipped platform a node is, from what its administrators call its features and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.pilot.platform import Platform, PlatformKind
from berth.plugin.scheduler.facts import NodeFacts
from berth.predictor.hardware.catalogue import candidates, device_of
from berth.predictor.hardware.device import Device

_TOKEN = re.compile(r"[a-z]+\d+[a-z]?|[a-z]+|\d{4}[a-z]?")
_SLICE = re.compile(r"(\d+)g\.(\d+)gb")
_MEMORY = re.compile(r"(?<!\d)(\d+)gb?(?![a-z0-9])")
_NOT_A_MODEL = re.compile(
    r"gpu|cpu|mig|nodes?|gi?b|hbm\d?|pcie|sxm\d?|intel|amd|nvidia|ib|avx\d*|sse\d|x86|tesla|xeon|"
    r"epyc|cores?|dual|socket|with|of|the|and|per|from|each|its|memory|bandwidth|compute|slice|"
    r"platinum|gold|silver|llnl"
)
_V2 = ("sse4_2", "avx", "avx2", "fma")
_V4 = (*_V2, "avx512f")
_SETS: Mapping[str, tuple[str, ...]] = {
    "avx2": _V2,
    "haswell": _V2,
    "broadwell": _V2,
    "rome": _V2,
    "milan": _V2,
    "naples": _V2,
    "avx512": _V4,
    "avx512f": _V4,
    "skylake": _V4,
    "cascadelake": _V4,
    "icelake": _V4,
    "sapphirerapids": _V4,
    "genoa": _V4,
    "bergamo": _V4,
    "turin": _V4,
}
"""What a feature's name says about the instructions of the CPU."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A platform, and what somebody should check about it (empty: a clear match)."""

    platform: Platform
    doubt: str = ""


def family(node: NodeFacts) -> frozenset[str]:
    """The features that tell one kind of CPU from another; racks and networks do not."""
    return frozenset(
        f
        for f in node.features
        if f.lower() in _SETS or f.lower() in ("intel", "amd", "arm") or _is_model(f)
    )


def instruction_sets(features: Iterable[str]) -> tuple[str, ...]:
    """As far as the features' names tell; empty: not known."""
    found = [_SETS[f.lower()] for f in features if f.lower() in _SETS]
    return max(found, key=len, default=())


def guess_cpu(node: NodeFacts, known: Mapping[str, Platform]) -> Guess | None:
    """The shipped CPU platform that the node's features name; None: they name none."""
    words = _models(" ".join(node.features))
    scored = [
        (len(words & _models(f"{p.name} {p.description}")), -abs(p.cores - node.cores), p.name)
        for p in known.values()
        if p.kind is PlatformKind.CPU and p.architecture == node.architecture
    ]
    hits, apart, name = max(scored, default=(0, 0, ""))
    if hits == 0:
        return None
    platform = known[name]
    if apart == 0:
        return Guess(platform)
    return Guess(platform, f"{name} has {platform.cores} cores, these nodes have {node.cores}")


def device_named(gres: str) -> Device | None:
    """The one device of the catalogue that a gres type is a name of; None of slices."""
    found = candidates(gres.partition(":")[2])
    return found[0] if len(found) == 1 else None


def guess_gpu(gres: str, node: NodeFacts, known: Mapping[str, Platform]) -> Guess | None:
    """The shipped GPU or MIG platform that a gres type names; None: it names none.

    By the catalogue's names where the type is one of them, by its words otherwise.
    """
    kind = gres.partition(":")[2].lower()
    device = device_named(gres)
    if device is not None:
        whole = (p for p in known.values() if p.kind is PlatformKind.GPU)
        same = [p for p in whole if device_of(p) == device]
        return Guess(same[0]) if len(same) == 1 else None
    # Flux counts slices as plain GPUs, and a property of the node names their profile.
    cut = _SLICE.search(kind or " ".join(node.features).lower())
    words = _models(_SLICE.sub(" ", kind)) | _models(" ".join(node.features))
    sizes = _MEMORY.findall(" ".join((kind, *node.features)).lower())
    fitting = []
    for platform in known.values():
        if platform.kind is PlatformKind.CPU:
            continue
        theirs = _models(platform.name)
        if cut is not None:
            if not platform.name.endswith(f"-{cut.group(0)}"):
                continue
        elif platform.kind is PlatformKind.MIG or not words & theirs:
            continue
        same_size = cut is None and any(f"-{s}gb" in platform.name for s in sizes)
        fitting.append((len(words & theirs), same_size, platform.name))
    if not fitting:
        return None
    fitting.sort(key=lambda item: (-item[0], -item[1], item[2]))
    best, others = fitting[0], [f[2] for f in fitting[1:] if f[:2] == fitting[0][:2]]
    doubt = f"it may also be {' or '.join(others)}" if others else ""
    if cut is not None and best[0] == 0 and not others:
        doubt = f"the type does not say of which GPU it is a slice; {best[2]} is a guess"
    return Guess(known[best[2]], doubt)


def _models(text: str) -> frozenset[str]:
    """Words that can name a model: ``h100``, ``7742``, ``rome``; not units, vendors, articles."""
    words = (w for w in _TOKEN.findall(text.lower()) if len(w) > 2)
    return frozenset(w for w in words if _NOT_A_MODEL.fullmatch(w) is None)


def _is_model(feature: str) -> bool:
    return re.fullmatch(r"(?:epyc|xeon)?[-_]?\d{4}[a-z]?", feature.lower()) is not None
