"""The measured speeds of timm's models beside their graphs, as one table of columns.

A row is one published measurement. Its graph is the exported one of the same model and image size;
rows without one have ``graph == NO_GRAPH``. Seconds are of one image (step time over batch).

A model's *family* is told by its name: publishers' and distillations' prefixes are dropped
(``tf_``, ``gluon_`` ...), the first word's letters are kept (``resnet50d`` -> ``resnet``), variants
with attention or another stem in front count as what they vary (``seresnet``, ``cs3darknet``), and
``_SAME`` joins what is one design under several names.

An *architecture* is a set of names that stand for one network: those with the same published image
size, parameters, MACs and activations (``tv_resnet50``, ``gluon_resnet50_v1b`` and ``resnet50``),
joined over sizes. "Unseen model" holds out architectures, not names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from berth.predictor.families.graph.latency.features import (
    Floats,
    GraphWork,
    graph_features,
    work_of,
)
from berth.predictor.graphs.graph import ModelGraph
from lab.datasets import timm

Strings: TypeAlias = NDArray[np.str_]
Flags: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.int64]

NO_GRAPH = -1
DEVICES = ("3090", "5090", "pro6000maxq", "i9_10940x", "i7_12700h")
_PUBLISHER = re.compile(r"(tf|gluon|ssl|swsl|tv|jx|adv|ig|legacy|dm|ens|bat|wide)_?(?=[a-z])")
_WORD = re.compile(r"[a-z]+(?:\d(?!\d)[a-z]{3,})*")
_BEFORE = re.compile(
    r"(se|eca|gc|sk|ese|nf|csp|cs3se|cs3|cs|lambda|halo2?|lamhalo|semi|sp|b)_?"
    r"(?=(se|eca)?_?"
    r"(resn[es]|darknet|vovnet|nfnet|efficientnet|mobilevit|botne|halone|regnet|[mn]asnet|edgenet))"
)
_SAME = {
    "resnext": "resnet", "resnetrs": "resnet", "resnetaa": "resnet", "resnetblur": "resnet",
    "resnextaa": "resnet", "resnetlight": "resnet", "senet": "resnet", "tresnet": "resnet",
    "res2next": "res2net", "regnetx": "regnet", "regnety": "regnet", "regnetz": "regnet",
    "rexnetr": "rexnet", "semnasnet": "mnasnet", "deit": "vit", "flexivit": "vit",
    "naflexvit": "vit", "eva": "vit", "beit": "vit", "sam": "vit", "samvit": "vit", "aim": "vit",
    "maxxvit": "maxvit", "coatnext": "coatnet", "hieradet": "hiera", "darknetaa": "darknet",
    "densenetblur": "densenet", "repghostnet": "ghostnet", "fbnetc": "fbnet", "resmlp": "mlp",
    "mixer": "mlp", "gmixer": "mlp", "gmlp": "mlp", "convformer": "poolformer",
    "nasnetalarge": "nasnet", "botnext": "botnet", "halonext": "halonet",
    "pnasnet5large": "nasnet", "tinynet": "efficientnet",
}  # fmt: skip


def family_of(model: str) -> str:
    """The architecture family of a timm model, by the rule above."""
    name = model
    while (match := _PUBLISHER.match(name)) and not name.startswith("tiny"):
        name = name[match.end() :].lstrip("_")
    while match := _BEFORE.match(name):
        name = name[match.end() :]
    word = _WORD.match(name)
    stem = re.sub(r"(?<=..)v$", "", word.group(0)) if word else name.split("_")[0]
    return _SAME.get(stem, stem)


@dataclass(frozen=True)
class Runs:
    """[rows] each; strings as numpy strings. ``rows[mask or indices]`` gives fewer rows."""

    model: Strings
    architecture: Strings
    """The first of the names that stand for the same network."""
    family: Strings
    image_size: Places
    device: Strings
    precision: Strings
    """``fp32``, ``amp`` (half precision where safe), ``amp_bf16``, ``bf16``."""
    layout: Strings
    torch: Places
    """Version as 113, 210, 240, 291."""
    cuda: Floats
    """Version times ten; 0 on CPUs."""
    compiled: Flags
    training: Flags
    batch: Places
    seconds: Floats
    """Of one image."""
    parameters: Floats
    """Published; millions. Likewise, NaN where not published:"""
    gmacs: Floats
    macts: Floats
    graph: Places
    """Into ``Graphs``, or NO_GRAPH."""

    def __len__(self) -> int:
        return len(self.model)

    def __getitem__(self, rows: Flags | Places) -> Runs:
        return Runs(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    @property
    def has_graph(self) -> Flags:
        """[rows]"""
        return np.asarray(self.graph != NO_GRAPH)

    def groups(self, *names: str) -> Strings:
        """[rows] one name for each combination of columns, as ``device``, ``precision``."""
        return np.array(["/".join(map(str, key)) for key in zip(*self._of(names), strict=True)])

    def _of(self, names: Sequence[str]) -> list[list[object]]:
        return [getattr(self, name).tolist() for name in names]


@dataclass(frozen=True)
class Graphs:
    """The graphs at batch 1, in the order of ``Runs.graph``."""

    architectures: tuple[timm.Architecture, ...]
    graphs: tuple[ModelGraph, ...]
    work: tuple[GraphWork, ...]
    features: Floats
    """[graphs, len(GRAPH_FEATURES)]"""


@cache
def graphs() -> Graphs:
    """All graphs, read once in a process (5 s). Raises ToolMissing, DocumentError."""
    read = sorted(timm.graphs(batch=1), key=lambda found: found[0])
    work = tuple(work_of(graph) for _, graph in read)
    return Graphs(
        tuple(architecture for architecture, _ in read), tuple(graph for _, graph in read), work,
        np.array([graph_features(one) for one in work]),
    )  # fmt: skip


def _linked(names: Strings, keys: Strings) -> dict[str, str]:
    """Each name's group by its first name in order: names that share a key are linked."""
    distinct, name = np.unique(names, return_inverse=True)
    _, key = np.unique(keys, return_inverse=True)
    size = len(distinct) + key.max(initial=-1) + 1
    links = coo_array((np.ones(len(name)), (name, len(distinct) + key)), shape=(size, size))
    _, group = connected_components(links, directed=False)
    _, first, own = np.unique(group[: len(distinct)], return_index=True, return_inverse=True)
    return dict(zip(distinct.tolist(), distinct[first[own]].tolist(), strict=True))


@cache
def architectures() -> dict[str, str]:
    """The architecture of each model's name."""
    frame = timm.frame()
    totals = ["img_size", "param_count", "gmacs", "macts"]
    same = frame.groupby(totals).ngroup().to_numpy()  # -1: a total is not published
    own = {str(name): str(name) for name in frame.model.unique()}
    return own | _linked(frame.model.to_numpy(str)[same >= 0], same[same >= 0].astype(str))


def over_sizes(rows: Runs) -> Strings:
    """[rows] the architecture, one for names that differ in an image size at their end alone.

    ``vit_tiny_patch16_224`` and ``..._384`` have the same layers; ``regnetx_320`` was never
    measured at 320 and keeps its number.
    """
    sized = zip(rows.model.tolist(), rows.image_size.tolist(), strict=True)
    bare = {
        model: model.removesuffix(f"_{size}") for model, size in sized if model.endswith(f"_{size}")
    }
    stem = np.array([bare.get(model, model) for model in rows.model.tolist()])
    told = _linked(rows.architecture, stem)
    return np.array([told[architecture] for architecture in rows.architecture.tolist()])


@cache
def runs(*, training: bool = False) -> Runs:
    """All measurements of inference (or of training). Raises ToolMissing, DocumentError.

    Rows without a batch or a time are left out (two of 20,220).
    """
    frame = timm.frame().dropna(subset=["batch_size", "step_time"])
    frame = frame[(frame["mode"] == "train") == training].reset_index(drop=True)
    place = {one: n for n, one in enumerate(graphs().architectures)}
    model, size = frame.model.tolist(), frame.img_size.tolist()

    same = architectures()

    def text(name: str) -> Strings:
        return np.array([str(value) for value in frame[name]])

    return Runs(
        model=text("model"),
        architecture=np.array([same[str(name)] for name in model]),
        family=np.array([family_of(str(name)) for name in model]),
        image_size=frame.img_size.to_numpy(np.int64),
        device=text("device"),
        precision=text("precision"),
        layout=text("layout"),
        torch=frame.torch.to_numpy(np.int64),
        cuda=frame.cuda.fillna(0).to_numpy(np.float64),
        compiled=frame.compiled.to_numpy(bool),
        training=(frame["mode"] == "train").to_numpy(bool),
        batch=frame.batch_size.to_numpy(np.int64),
        seconds=(frame.step_time / 1e3 / frame.batch_size).to_numpy(np.float64),
        parameters=frame.param_count.to_numpy(np.float64),
        gmacs=frame.gmacs.to_numpy(np.float64),
        macts=frame.macts.to_numpy(np.float64),
        graph=np.array([
            place.get(timm.Architecture(str(m), int(s)), NO_GRAPH)
            for m, s in zip(model, size, strict=True)
        ], np.int64),
    )  # fmt: skip


def scalars(rows: Runs, *, with_totals: bool = True) -> Floats:
    """[rows, ...] what a table knows without a graph: logarithms of published MACs, activations,
    parameters (NaN kept), image and batch; and the setting: device, precision, layout, versions.
    """
    columns = [
        np.log(rows.image_size), np.log(rows.batch), rows.torch, rows.cuda, rows.compiled,
        rows.layout == "nhwc", *(rows.device == device for device in DEVICES),
        *(rows.precision == name for name in ("fp32", "amp", "amp_bf16", "bf16")),
    ]  # fmt: skip
    if with_totals:
        totals = (rows.gmacs, rows.macts, rows.parameters)
        columns = [*(np.log(np.maximum(x, 5e-3)) for x in totals), *columns]
    return np.column_stack([np.asarray(column, np.float64) for column in columns])


@dataclass(frozen=True, slots=True)
class Floor:
    """How far repeats of one configuration stand apart."""

    groups: int
    mean_error: float
    """Of each repeat against the geometric mean of the others: nothing that does not know the
    version of torch can be nearer on average."""
    median_error: float


def repeat_floor(rows: Runs) -> Floor:
    """Over rows that differ only in the versions of torch and CUDA (and, by those, in batch)."""
    key = rows.groups(
        "model", "image_size", "device", "precision", "layout", "compiled", "training"
    )
    order = np.argsort(key, kind="stable")
    seconds = np.log(rows.seconds[order])
    starts = np.flatnonzero(np.r_[True, key[order][1:] != key[order][:-1]])
    errors, groups = [], 0
    for part in np.split(seconds, starts[1:]):
        if len(part) > 1:
            groups += 1
            others = (part.sum() - part) / (len(part) - 1)
            errors.extend(np.abs(np.expm1(others - part)).tolist())
    found = np.array(errors) if errors else np.array([np.nan])
    return Floor(groups, float(found.mean()), float(np.median(found)))


def without_graphs(rows: Runs) -> Runs:
    """The same rows as if no graph were known."""
    return replace(rows, graph=np.full(len(rows), NO_GRAPH))
