"""Measured speeds of pytorch-image-models architectures, and the graphs of 451 of them.

The published parameters (millions) and GMACs (for one image) are rounded to two decimals. GMACs of
one architecture and image size differ between the files by over 2 % in 15 % of cases; parameters
hardly. The graphs are ONNX skeletons: random weights kept outside, symbolic batch.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import ModelReader
from lab.datasets import DataSet, locate
from lab.graphs import PATIENT

if TYPE_CHECKING:
    import pandas

BENCHMARK = DataSet(
    path="dl/timm_benchmark.parquet",
    title="timm inference and training speeds",
    source="pytorch-image-models, results (https://github.com/huggingface/pytorch-image-models)",
    licence="Apache-2.0",
    sha256="cb799c8b790fc2237593df3899ce566c1b476ea6270d11a3878dd5851cfc310d",
)
GRAPHS = DataSet(
    path="dl/graphs.tar.xz",
    title="ONNX graphs of timm architectures",
    source="timm, exported by torch.onnx with random weights",
    licence="Apache-2.0",
    sha256="8df1d94ce8d27c4eef95ac7866c2b39b0b429b4754c46a7154bcd5d3a883a576",
)
_NAME = re.compile(r"(?:.*/)?(.+)_(\d+)\.onnx")


@dataclass(frozen=True, slots=True, order=True)
class Architecture:
    """A model at an image size."""

    model: str
    image_size: int


@dataclass(frozen=True, slots=True)
class Published:
    """What the files say of an architecture; several values where they disagree."""

    parameters_millions: tuple[float, ...]
    gmacs: tuple[float, ...]
    """For one image of this size."""


def frame() -> pandas.DataFrame:
    """Return all measurements as published. Raises ToolMissing or DocumentError (see
    ``locate``)."""
    import pandas  # noqa: PLC0415 - a training library

    return pandas.read_parquet(locate(BENCHMARK))


@cache
def published() -> dict[Architecture, Published]:
    """Totals of every architecture and image size measured."""
    rows = frame()
    parameters = rows.dropna(subset="param_count").groupby("model").param_count.unique()
    found = {}
    for (model, size), part in rows.groupby(["model", "img_size"]):
        found[Architecture(str(model), int(size))] = Published(
            tuple(sorted(float(x) for x in parameters.get(model, ()))),
            tuple(sorted({float(x) for x in part.gmacs.dropna()})),
        )
    return found


def skeletons() -> Iterator[tuple[Architecture, bytes]]:
    """Yield each graph's file, by name. Raises ToolMissing or DocumentError (see ``locate``)."""
    with tarfile.open(locate(GRAPHS), "r:xz") as archive:
        for member in archive:
            match = _NAME.fullmatch(member.name)
            content = archive.extractfile(member) if match else None
            if match and content is not None:
                yield Architecture(match.group(1), int(match.group(2))), content.read()


def graphs(batch: int = 1) -> Iterator[tuple[Architecture, ModelGraph]]:
    """Yield each graph at a batch, read as a user's file is."""
    with ModelReader(PATIENT) as reader:
        for architecture, data in skeletons():
            handle = os.memfd_create("model")
            with closing(os.fdopen(handle, "w+b")) as stream:
                stream.write(data)
                stream.flush()
                name = f"{architecture.model}_{architecture.image_size}.onnx"
                yield architecture, reader.read_open(handle, source=name, batch=batch)
