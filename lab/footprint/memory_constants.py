"""What frameworks add to a graph's memory: ``predictor/footprint/runtimes.json``."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.documents import write_text
from berth.predictor.core.sizes import GPU_CONTEXT_BYTES
from berth.predictor.footprint.footprint import Task
from berth.predictor.footprint.runtimes import (
    DeviceMemory,
    Runtime,
    RuntimeName,
    RuntimesFile,
    Span,
)
from lab.footprint.fit_memory import fit_forward, fit_host, training_shares
from lab.footprint.memory_labels import Hosted, forwards, hosted, trained


def learn() -> RuntimesFile:
    """All constants from all labels. Raises ToolMissing where a data set is absent."""
    cases = forwards()
    measured = [case for case in cases if case.printed.actual_mib is not None]
    fitted = fit_forward(measured)
    # A context that loads kernels only when they are called for takes that little.
    context = Span(
        low=min(float(GPU_CONTEXT_BYTES), fitted.context_bytes.low),
        mid=fitted.context_bytes.mid,
        high=fitted.context_bytes.high,
    )
    loads = trained()
    rows = list(hosted())
    forward = [row for row in rows if row.framework == "onnxruntime"]
    training = [row for row in rows if row.framework == "torch" and row.need.task is Task.TRAINING]
    return RuntimesFile(
        schema="berth.footprint-runtimes/1",
        runtimes={
            RuntimeName.GPU_FORWARD: Runtime(
                memory=DeviceMemory(context_bytes=context, share=fitted.share),
                framework="PyTorch 1.13.1, CUDA 11.7",
                source="thesis, table 4.5, and DIPPM's dippm.py: A100 40 GB, fp32",
                labels=len(measured),
                models=len({case.printed.model for case in measured}),
                limits="labels are recorded forward passes on an A100; not other GPUs, "
                "precisions, versions, nor inference without recording",
            ),
            RuntimeName.GPU_TRAINING: Runtime(
                memory=DeviceMemory(context_bytes=context, share=training_shares(loads).span),
                framework="PyTorch's context, TensorFlow 2.6's share",
                source="MISO: A100 40 GB, fp32, eight programs on five slices",
                labels=len(loads),
                models=len({load.model for load in loads}),
                limits="labels say on which slices programs ran, not how much memory they took",
            ),
            RuntimeName.CPU_FORWARD: _hosted(forward, "onnxruntime 1.31.1"),
            RuntimeName.CPU_TRAINING: _hosted(training, "PyTorch 2.13.0"),
        },
    )  # fmt: skip


def _hosted(rows: list[Hosted], framework: str) -> Runtime:
    return Runtime(
        memory=fit_host(rows),
        framework=framework,
        source="our own runs on epyc-genoa-vm, fp32, one thread",
        labels=len(rows),
        models=len({row.model for row in rows}),
        limits="labels are small models (at most 23 million parameters, batch 8)",
    )


def write(found: RuntimesFile, path: Path) -> None:
    """As JSON that people can read."""
    write_text(path, found.model_dump_json(by_alias=True, indent=1) + "\n")
