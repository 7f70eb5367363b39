"""Measured peak memory beside what can be counted: the thesis's table 4.5, MISO, our own CPU runs.

* Forward passes on an A100 40 GB, PyTorch 1.13.1, CUDA 11.7 (Panner Selvam's thesis, table 4.5;
  efficientnet_b0 from a note in DIPPM's published ``dippm.py``). They are memory *with autograd
  recording*: 126, 229 and 224 MiB an image are what autograd keeps of these models, 6 to 20 times
  what inference without recording holds. Printed as MB; read as MiB, the unit of ``nvidia-smi``
  (all eight printed values are even, as multiples of the driver's 2 MiB are).
  The printed 1,652 MB of convnext_base at batch 4 contradict the printed percentages (8 % of 40 GB
  on the whole GPU): no label, only a case for the profile.
* Training on an A100 40 GB, TensorFlow 2.6 (MISO): which slices a program ran on, and what the
  allocator had reserved: together an interval that holds the need.
* Host memory of our own runs (``training/graphs/data``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from berth.pilot.dl.document import Outcome
from berth.pilot.dl.document import Task as Timed
from berth.predictor.footprint.footprint import MemoryTask, Need, count
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import ModelReader
from lab.datasets.mig import USABLE_MIB, TrainingRow, training_rows
from lab.datasets.timm import skeletons
from lab.footprint.miso import PROGRAMS, Program
from lab.footprint.sketch import convnext_base
from lab.graphs import PATIENT
from lab.graphs.model_runs import runs

MIB = 2**20
DUMMY_MIB = 1401
"""What ``nvidia-smi`` shows for MISO's ``dummy``, a network of two layers (its
``mps/configs/memory.json``): TensorFlow 2.6 by itself."""


@dataclass(frozen=True, slots=True)
class Printed:
    """One row of table 4.5, or another published figure of the same setting."""

    model: str
    graph: str
    """timm's name and image size; empty: written down in ``networks``."""
    batch: int
    dippm_mib: float | None
    """What DIPPM predicted."""
    actual_mib: float | None
    """None: not to be trusted."""
    profile: str | None
    """The profile that the thesis finds right; None outside of the table."""


PRINTED = (
    Printed("densenet121", "densenet121_224", 8, 2865, 3272, "1g.5gb"),
    Printed("densenet121", "densenet121_224", 32, 5952, 6294, "2g.10gb"),
    Printed("swin_base_patch4", "swin_base_patch4_window7_224_224", 2, 2873, 2944, "1g.5gb"),
    Printed("swin_base_patch4", "swin_base_patch4_window7_224_224", 16, 6736, 6156, "2g.10gb"),
    Printed("convnext_base", "", 4, 4771, None, "1g.5gb"),
    Printed("convnext_base", "", 128, 26439, 30996, "7g.40gb"),
    Printed("efficientnet_b0", "efficientnet_b0_224", 32, None, 4772, None),
)


@dataclass(frozen=True, slots=True)
class Forward:
    """A published figure with its graph and what is counted."""

    printed: Printed
    graph: ModelGraph
    need: Need
    """With autograd recording."""


def forwards() -> list[Forward]:
    """Table 4.5 and its companion, in that order. Raises ToolMissing without timm's graphs."""
    wanted = {row.graph for row in PRINTED if row.graph}
    files = {
        name: data
        for architecture, data in skeletons()
        if (name := f"{architecture.model}_{architecture.image_size}") in wanted
    }
    sketch, output = convnext_base()
    files[""] = sketch.model(output).SerializeToString()
    found = []
    with ModelReader(PATIENT) as reader:
        for row in PRINTED:
            graph = read(reader, files[row.graph], row.batch, row.model)
            found.append(Forward(row, graph, count(graph, MemoryTask.RECORDED)))
    return found


def read(reader: ModelReader, data: bytes, batch: int, source: str) -> ModelGraph:
    """Return a model's bytes, read as a user's file is."""
    handle = os.memfd_create("model")
    with closing(os.fdopen(handle, "w+b")) as stream:
        stream.write(data)
        stream.flush()
        return reader.read_open(handle, source=source, batch=batch)


@dataclass(frozen=True, slots=True)
class Trained:
    """A program of MISO's at a batch."""

    model: str
    batch: int
    counted_mib: float
    """Weights, gradients, moments and activations, all passes of a step together."""
    reserved_mib: float
    rows: tuple[TrainingRow, ...]
    """Its slices."""

    @property
    def above_mib(self) -> float:
        """Return the largest slice that it did not run on: it needs more; 0 where it ran on all."""
        return max((USABLE_MIB[r.profile] for r in self.rows if not r.fits), default=0)

    @property
    def at_most_mib(self) -> float:
        """Return the smallest slice that it ran on, or the reservation."""
        ran = [USABLE_MIB[r.profile] for r in self.rows if r.fits]
        return min(self.reserved_mib, *ran)


def trained() -> list[Trained]:
    """MISO's 32 programs and batches."""
    by_load: dict[tuple[str, int], list[TrainingRow]] = {}
    for row in training_rows():
        by_load.setdefault((row.model, row.batch), []).append(row)
    found = []
    with ModelReader(PATIENT) as reader:
        for (model, batch), rows in sorted(by_load.items()):
            counted = _program(reader, PROGRAMS[model], batch, model)
            found.append(Trained(model, batch, counted, rows[0].reserved_mib, tuple(rows)))
    return found


def _program(reader: ModelReader, program: Program, batch: int, name: str) -> float:
    counted = 0
    for make, copies, passes in program.networks:
        sketch, output = make()
        graph = read(reader, sketch.model(output).SerializeToString(), batch, name)
        need = count(
            graph, MemoryTask.TRAINING,
            on_gpu=False, moments=program.moments, strided=False, fused=False,
        )  # fmt: skip
        counted += copies * (need.weights + need.gradients + need.moments)
        counted += copies * passes * need.activations
    return counted / MIB


@dataclass(frozen=True, slots=True)
class Hosted:
    """One of our own runs on a CPU."""

    model: str
    framework: str
    need: Need
    peak_bytes: float


def hosted() -> Iterator[Hosted]:
    """Our runs by model. Raises ToolMissing without timm's graphs."""
    wanted: dict[str, list[tuple[int, str, MemoryTask, float]]] = {}
    for run in runs():
        peak = run.measurements["host_peak_bytes"].value
        if run.outcome is Outcome.OK and peak is not None:
            task = (
                MemoryTask.TRAINING if run.setting.task is Timed.TRAINING else MemoryTask.INFERENCE
            )
            entry = (run.setting.batch, run.setting.framework, task, peak)
            wanted.setdefault(run.model.name, []).append(entry)
    with ModelReader(PATIENT) as reader:
        for architecture, data in skeletons():
            name = f"{architecture.model}_{architecture.image_size}"
            for batch, framework, task, peak in wanted.get(name, ()):
                graph = read(reader, data, batch, name)
                fused = framework == "onnxruntime"
                need = count(graph, task, on_gpu=False, moments=1, strided=not fused, fused=True)
                yield Hosted(name, framework, need, peak)
