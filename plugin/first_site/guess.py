"""Guesses a node's platform from the names of its features and GPU types.

Slurm's AutoDetect or administrators name the types of MIG slices: ``nvidia_a100_1g.10gb``,
``a100_3g.39gb``, ``nvidia_h100_80gb_hbm3_1g.10gb+me``, ``1g.5gb``. A GPU model in the name limits
the possible profiles. Slurm rounds a slice's memory by its own rules, so the size in the name is
matched to the nearest profile of that model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from berth.pilot.instruction_sets import KNOWN, canonical, compact
from berth.pilot.platform import Platform, PlatformKind
from berth.plugin.first_site.stub import gpu_stub
from berth.plugin.scheduler.facts import NodeFacts
from berth.predictor.hardware.catalogue import candidates, device_of, devices
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import geometries, geometry_of, slice_of, slice_platform

_MEMORY = re.compile(r"(?<!\d)(\d+)gb?(?![a-z0-9])")
_V3 = ("x86-64-v3",)
_V4 = ("x86-64-v4",)
_ZEN4 = (
    *_V4, "avx512_bf16", "avx512_bitalg", "avx512_vbmi2", "avx512_vnni", "avx512_vpopcntdq",
    "avx512ifma", "avx512vbmi",
)  # fmt: skip
_ICE_LAKE = tuple(name for name in _ZEN4 if name != "avx512_bf16")
_KNIGHTS_LANDING = (*_V3, "avx512f", "avx512cd", "avx512er", "avx512pf")
_RAPIDS = (*_ZEN4, "avx512_fp16", "avx_vnni", "amx_bf16", "amx_int8", "amx_tile")
_ZEN5 = (*_ZEN4, "avx512_vp2intersect", "avx_vnni")
_OF_SETS: Mapping[tuple[str, ...], str] = {
    ("x86-64-v2",): "nehalem westmere",
    ("x86-64-v2", "avx"): "sandybridge",
    ("x86-64-v2", "avx", "f16c"): "ivybridge",
    _V3: "haswell broadwell naples rome milan zen zen2 zen3",
    _KNIGHTS_LANDING: "knl knightslanding",
    _V4: "skylake",
    (*_V4, "avx512_vnni"): "cascadelake",
    (*_V4, "avx512_vnni", "avx512_bf16"): "cooperlake",
    _ICE_LAKE: "icelake",
    _RAPIDS: "sapphirerapids emeraldrapids",
    _ZEN4: "genoa bergamo siena zen4",
    _ZEN5: "turin zen5",
    ("armv8.1",): "thunderx2",
    ("armv8.2", "dotprod", "fp16", "rcpc"): "graviton2",
    ("armv8.4", "bf16", "fp16", "i8mm", "sve"): "graviton3",
    ("armv9", "bf16", "fp16", "i8mm"): "grace",
    ("armv8.2", "fcma", "fp16", "sve"): "a64fx",
    ("power8",): "power8",
    ("power9",): "power9",
    ("power10",): "power10",
}
_SETS = {name: sets for sets, names in _OF_SETS.items() for name in names.split()}
"""Instruction sets by CPU name: the architecture level, and the sets beyond that level that
compilers use."""
_SET_FEATURE = re.compile(
    r"x86[-_]64[-_]?v[2-4]|armv[89](?:\.\d)?(?:-a)?|sse4[._]?[12]?|avx\w*|fma|bmi[12]|sve2?"
)
"""Matches features that name an instruction set or a level, and no other features."""
_GIB = 2**30
_SLICE = re.compile(
    r"(?<![0-9.])(?P<compute>[1-9])g\.(?P<size>\d{1,3}(?:\.\d{1,2})?)gb"
    r"(?:(?P<sign>[+.-])(?P<variant>(?:me|gfx)(?:\.all)?))?(?![a-z0-9])"
)
_MODE = re.compile(r"[-_. ]?(?<![a-z])(?P<mode>[sdtqc]px)(?![a-z0-9])")
"""Matches the partition mode of an AMD GPU in a name: ``mi300x_cpx``."""
_TOKEN = re.compile(r"[a-z]+\d+[a-z]?|[a-z]+|\d{4}[a-z]?")
_NOT_A_MODEL = re.compile(
    r"gpu|cpu|mig|nodes?|gi?b|hbm\d?|pcie|sxm\d?|intel|amd|nvidia|ib|avx\d*|sse\d|x86|tesla|xeon|"
    r"epyc|cores?|dual|socket|with|of|the|and|per|from|each|its|memory|bandwidth|compute|slice|"
    r"platinum|gold|silver|llnl"
)
_SAME_SIZE_GB = 1.0
_SAME_SIZE_SHARE = 0.06
"""Sizes that differ by less than this share, or by less than the tolerance in GB, count as the same
size rounded differently: 39 and 40 GB, 94 and 95 GB.
"""
_EQUALLY_NEAR_GB = 0.5


@dataclass(frozen=True, slots=True)
class Guess:
    """A guessed platform, and what an administrator should check about it (empty: a clear
    match).
    """

    platform: Platform
    doubt: str = ""
    whole: Platform | None = None
    """A stub platform for a slice's GPU, where no known platform is that GPU."""


def family(node: NodeFacts) -> frozenset[str]:
    """Return the features of a node that identify its CPU, without those of racks and networks."""
    return frozenset(
        f
        for f in node.features
        if _sets_of(f) or f.lower() in ("intel", "amd", "arm") or _is_model(f)
    )


def instruction_sets(features: Iterable[str]) -> tuple[str, ...]:
    """Return the instruction sets that the features name or imply; empty: unknown."""
    return compact(name for feature in features for name in _sets_of(feature))


def _sets_of(feature: str) -> tuple[str, ...]:
    """Return the instruction sets that one feature names, or that the CPU it names has."""
    small = feature.lower()
    name = canonical(feature)
    if _SET_FEATURE.fullmatch(small) and name in KNOWN:
        return (name,)
    return _SETS.get(re.sub(r"[-_ ]", "", small).removesuffix("sp"), ())


def guess_cpu(node: NodeFacts, known: Mapping[str, Platform]) -> Guess | None:
    """Return the known CPU platform that the node's features name; None: they name none."""
    words = model_words(" ".join(node.features))

    def apart(platform: Platform) -> int:
        return min(abs(platform.cores - cores) for cores in node.benchmarked_cores)

    scored = [
        (len(words & model_words(f"{p.name} {p.description}")), -apart(p), p.name)
        for p in known.values()
        if p.kind is PlatformKind.CPU and p.architecture == node.architecture
    ]
    hits, _, name = max(scored, default=(0, 0, ""))
    if hits == 0:
        return None
    platform = known[name]
    if apart(platform) == 0:
        return Guess(platform)
    there = node.installed_cores
    return Guess(platform, f"{name} has {platform.cores} cores, these nodes have {there}")


def device_named(gres: str) -> DataSheet | None:
    """Return the catalogue's device with this gres type's name; None: no device, several, or a
    slice.
    """
    devices_named = candidates(gres.partition(":")[2])
    return devices_named[0] if len(devices_named) == 1 else None


def guess_gpu(gres: str, node: NodeFacts, known: Mapping[str, Platform]) -> Guess | None:
    """Return the known GPU or MIG platform that a gres type names; None: it names none.

    The type is looked up in the device catalogue first; otherwise its words are compared.
    """
    kind = gres.partition(":")[2].lower()
    # Flux counts slices as untyped GPUs; there a property of the node names their profile.
    if slice_named(kind or " ".join(node.features)) is not None:
        return guess_slice(kind, node, known)
    mode = _MODE.search(kind) or _MODE.search(" ".join(node.features).lower())
    device = device_named(f"gpu:{_MODE.sub('', kind)}")
    if device is not None:
        whole = (p for p in known.values() if p.kind is PlatformKind.GPU)
        same = [p for p in whole if device_of(p) == device]
        return _in_mode(same[0], mode, known) if len(same) == 1 else None
    words = model_words(kind) | model_words(" ".join(node.features))
    sizes = _MEMORY.findall(" ".join((kind, *node.features)).lower())
    fitting = []
    for platform in known.values():
        if platform.kind is not PlatformKind.GPU or not words & (
            theirs := model_words(platform.name)
        ):
            continue
        same_size = any(f"-{s}gb" in platform.name for s in sizes)
        fitting.append((len(words & theirs), same_size, platform.name))
    if not fitting:
        return None
    fitting.sort(key=lambda item: (-item[0], -item[1], item[2]))
    best, others = fitting[0], [f[2] for f in fitting[1:] if f[:2] == fitting[0][:2]]
    return Guess(known[best[2]], f"it may also be {' or '.join(others)}" if others else "")


def _in_mode(whole: Platform, mode: re.Match[str] | None, known: Mapping[str, Platform]) -> Guess:
    """Return the platform of a partition of an AMD GPU in the named mode; the whole GPU in SPX
    mode or where no mode is named."""
    name = mode.group("mode") if mode else "spx"
    if name == "spx":
        return Guess(whole)
    part = known.get(f"{whole.name}-{name}")
    if part is None:
        return Guess(whole, f"no platform is of its mode {name.upper()}")
    return Guess(part)


def guess_slice(kind: str, node: NodeFacts, known: Mapping[str, Platform]) -> Guess | None:
    """Return the platform of the MIG slice that the GPU type or, without a type, a feature names;
    None: neither names a slice.

    If no known platform is the slice's GPU, ``Guess.whole`` has a stub made from its data sheet.
    """
    asked = slice_named(kind or " ".join(node.features))
    if asked is None:
        return None
    meant = meanings(asked, node.features if kind else ())
    each = [_slice_guess(named, node, known) for named in meant.slices]
    # Slices that are known platforms come first, then those whose whole GPU is known.
    each.sort(key=lambda guess: (guess.platform.name not in known, guess.whole is not None))
    if not each:
        return None
    best, others = each[0], [guess.platform.name for guess in each[1:]]
    doubt = f"it may also be {' or '.join(others)}" if others else ""
    if not meant.names_gpu:
        guessed = f"; {best.platform.name} is a guess"
        doubt = (
            "the type does not say of which GPU it is a slice"
            + guessed
            + f", {doubt}" * bool(doubt)
        )
    return Guess(best.platform, doubt, best.whole)


def _slice_guess(named: NamedSlice, node: NodeFacts, known: Mapping[str, Platform]) -> Guess:
    geometry, profile = named.geometry, named.profile
    for platform in known.values():
        if slice_of(platform) == (geometry, profile):
            return Guess(platform)
    of_named = [d for d in named.devices or devices().values() if d.mig == geometry.gpu]
    whole = [
        p
        for p in known.values()
        if p.kind is PlatformKind.GPU
        and (of := geometry_of(p)) is not None
        and of.gpu == geometry.gpu
    ]
    whole.sort(key=lambda p: device_of(p) not in of_named)
    if whole:
        return Guess(slice_platform(whole[0], geometry, profile))
    device = of_named[0]
    stub = gpu_stub(device.name, architecture=node.architecture, device=device)
    return Guess(slice_platform(stub, geometry, profile), whole=stub)


def _is_model(feature: str) -> bool:
    return re.fullmatch(r"(?:epyc|xeon)?[-_]?\d{4}[a-z]?", feature.lower()) is not None


@dataclass(frozen=True, slots=True)
class SliceName:
    """The parts of a slice's type name; ``gpu``: the words before and after the profile."""

    compute_slices: int
    size_gb: float
    suffixes: tuple[str, ...]
    """Possible spellings of the profile's suffix (``+me``) in the geometry; the empty one
    is last.
    """
    gpu: str


@dataclass(frozen=True, slots=True)
class NamedSlice:
    """A MIG profile that a slice's name may mean."""

    geometry: Geometry
    profile: SliceProfile
    devices: tuple[DataSheet, ...]
    """The named GPUs that have this geometry; all GPUs with it where the text names none."""


@dataclass(frozen=True, slots=True)
class Meanings:
    """The MIG profiles that a slice's name may mean, the likeliest first."""

    slices: tuple[NamedSlice, ...]
    names_gpu: bool
    """True: the type name, or a feature of the node, names the GPU model."""


def model_words(text: str) -> frozenset[str]:
    """Return the words that can name a GPU or CPU model (``h100``, ``7742``, ``rome``), without
    units, vendors and articles.
    """
    words = (w for w in _TOKEN.findall(text.lower()) if len(w) > 2)
    return frozenset(w for w in words if _NOT_A_MODEL.fullmatch(w) is None)


def slice_named(text: str) -> SliceName | None:
    """Return the slice in a type's name or a node's features; None: the text names none."""
    match = _SLICE.search(text.lower())
    if match is None:
        return None
    variant = match["variant"]
    signs = dict.fromkeys(("-", "+") if match["sign"] == "-" else ("+", "-"))
    suffixes = tuple(f"{sign}{variant}" for sign in signs) if variant else ()
    rest = f"{text[: match.start()]} {text[match.end() :]}".lower()
    gpu = re.sub(r"(?<![a-z0-9])mig(?![a-z0-9])", " ", rest.replace("_", " "))
    return SliceName(int(match["compute"]), float(match["size"]), (*suffixes, ""), gpu.strip())


def meanings(asked: SliceName, features: Iterable[str] = ()) -> Meanings:
    """Return the MIG profiles that a slice's name may mean, for the GPU model in the name or else
    in the node's features.
    """
    devices = _named_devices(asked.gpu)
    if devices is None:
        of_features = [of_feature for f in features if (of_feature := _named_devices(f))]
        devices = {
            name: device for of_feature in of_features for name, device in of_feature.items()
        } or None
    nearest = sorted(_nearest(asked, devices), key=lambda item: item[0])
    if not nearest:
        return Meanings((), devices is not None)
    (is_double, apart_gb), _ = nearest[0]
    near = [
        named_slice
        for (double, apart), named_slice in nearest
        if double == is_double and apart <= apart_gb + _EQUALLY_NEAR_GB
    ]
    return Meanings(tuple(near), devices is not None)


def _named_devices(text: str) -> dict[str, DataSheet] | None:
    """Return the GPUs with MIG that the words name, by device name; None: the words name no
    model."""
    named = candidates(text)
    if not named:
        words = model_words(text)
        if not words:
            return None
        named = tuple(match for word in sorted(words) for match in candidates(word))
    return {device.name: device for device in named if device.mig}


def _nearest(
    asked: SliceName, devices: dict[str, DataSheet] | None
) -> Iterator[tuple[tuple[bool, float], NamedSlice]]:
    """Yield the nearest profile of each geometry, with whether it has double memory and its
    distance in GB.
    """
    for geometry in geometries().values():
        named = tuple(d for d in (devices or {}).values() if d.mig == geometry.gpu)
        if devices is not None and not named:
            continue
        same = [p for p in geometry.profiles if p.compute_slices == asked.compute_slices]
        suffix = next((s for s in asked.suffixes if any(p.suffix == s for p in same)), "")
        same = [p for p in same if p.suffix == suffix]
        profile = min(same, key=lambda p: _apart_gb(asked, p), default=None)
        if profile is None:
            continue
        apart = _apart_gb(asked, profile)
        if apart <= max(_SAME_SIZE_GB, _SAME_SIZE_SHARE * asked.size_gb):
            is_double = profile.memory_slices > min(p.memory_slices for p in same)
            yield (is_double, apart), NamedSlice(geometry, profile, named)


def _apart_gb(asked: SliceName, profile: SliceProfile) -> float:
    """Return the difference in GB between the size in a slice's name and the profile's nominal or
    usable size, whichever is smaller.
    """
    nominal = float(profile.name.removesuffix(profile.suffix).partition(".")[2][:-2])
    return min(abs(asked.size_gb - size) for size in (nominal, profile.memory_bytes / _GIB))
