"""Families and architectures of timm's model names.

A *family* is found from the name: prefixes of publishers and distillations are dropped (``tf_``,
``gluon_`` ...), the letters of the first word are used (``resnet50d`` -> ``resnet``), prefixes for
attention or another stem are dropped (``seresnet``, ``cs3darknet``), and ``_SAME`` joins several
names of one design.

An *architecture* is the set of names with the same published image size, parameters, MACs and
activations (``tv_resnet50``, ``gluon_resnet50_v1b`` and ``resnet50``). Names that agree at one
image size are joined at all sizes.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lab.datasets import timm
from lab.ground.table import Strings

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
    """Return the family of a timm model, by the rule in the module's docstring."""
    name = model
    while (match := _PUBLISHER.match(name)) and not name.startswith("tiny"):
        name = name[match.end() :].lstrip("_")
    while match := _BEFORE.match(name):
        name = name[match.end() :]
    word = _WORD.match(name)
    stem = re.sub(r"(?<=..)v$", "", word.group(0)) if word else name.split("_")[0]
    return _SAME.get(stem, stem)


@cache
def architectures() -> dict[str, str]:
    """Return the architecture of each model's name: the first name, sorted, of the same network."""
    frame = timm.frame()
    totals = ["img_size", "param_count", "gmacs", "macts"]
    same = frame.groupby(totals).ngroup().to_numpy()  # -1: a total is not published
    own = {str(name): str(name) for name in frame.model.unique()}
    return own | _linked(frame.model.to_numpy(str)[same >= 0], same[same >= 0].astype(str))


def _linked(names: Strings, keys: Strings) -> dict[str, str]:
    """Return the first name (sorted) of each name's group; names that share a key are linked."""
    distinct, name = np.unique(names, return_inverse=True)
    _, key = np.unique(keys, return_inverse=True)
    size = len(distinct) + key.max(initial=-1) + 1
    links = coo_array((np.ones(len(name)), (name, len(distinct) + key)), shape=(size, size))
    _, group = connected_components(links, directed=False)
    _, first, own = np.unique(group[: len(distinct)], return_index=True, return_inverse=True)
    return dict(zip(distinct.tolist(), distinct[first[own]].tolist(), strict=True))
