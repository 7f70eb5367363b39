"""Predicted memory of model graphs: its figures, and what frameworks add (``runtimes.json``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.documents import write_text
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.program_memory import GPU_CONTEXT_BYTES
from berth.predictor.footprint.footprint import MemoryTask
from berth.predictor.footprint.runtimes import (
    DeviceMemory,
    FrameworkMemory,
    RuntimeName,
    RuntimesFile,
    Span,
)
from lab.experiments.experiment import Options
from lab.footprint.fit_memory import fit_forward, fit_host, training_shares
from lab.footprint.host_memory import HostFigures, host_figures
from lab.footprint.memory_labels import Hosted, forwards, hosted, trained
from lab.footprint.printed_table import PrintedFigures, printed_figures
from lab.footprint.slice_fits import SliceFits, slice_fits
from lab.ground.report import Report, Section

STEPS = 3
CASES = ("model", "batch", "actual", "DIPPM", "predicted", "95 % interval", "error", "profile",
         "right")  # fmt: skip
FITS = ("predicted by", "from", "false fits", "false does-not-fit", "share")
HOST = ("framework", "task", "rows", "models", "median", "mean", "worst", "in 95 %")

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class MemoryEvaluation:
    """Section ``memory``."""

    printed: PrintedFigures
    slices: SliceFits
    host: list[HostFigures]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        found = asdict(self)
        found["printed"]["profiles_right"] = self.printed.profiles_right
        return found

    def tables(self) -> Iterator[Table]:
        """(title, header, rows) of each table."""
        yield printed_table(self.printed)
        yield slices_table(self.slices)
        yield host_table(self.host)


def printed_table(found: PrintedFigures) -> Table:
    """Table 4.5 by us, and by DIPPM."""
    right, asked = found.profiles_right
    inside, labelled = found.inside
    errors = [case.error for case in found.cases if case.error is not None]
    cases: list[tuple[str, ...]] = [
        (
            c.model, str(c.batch), "-" if c.actual is None else f"{c.actual:.0f}",
            "-" if c.dippm is None else f"{c.dippm:.0f}", f"{c.mid:.0f}",
            f"{c.low:.0f} to {c.high:.0f}", "-" if c.error is None else f"{c.error:.1%}",
            c.profile or "none", c.right_profile or "-",
        )
        for c in found.cases
    ]  # fmt: skip
    return (
        f"thesis, table 4.5, A100 40 GB, forward passes that autograd recorded, MiB "
        f"({found.split}): profile right in {right} of {asked} (bar 6 of 6), "
        f"memory off by {np.mean(errors):.1%} (mean), {inside} of {labelled} in the interval; "
        f"DIPPM {found.dippm_profiles} of {asked}, off by {found.dippm_error:.1%}",
        CASES,
        cases,
    )


def slices_table(found: SliceFits) -> Table:
    """MISO."""
    rows: list[tuple[str, ...]] = [
        (r.name, r.source, f"{r.false_fits} of {r.failed}", f"{r.false_refusals} of {r.ran}",
         f"{r.refusal_share:.1%}")
        for r in found.rows
    ]  # fmt: skip
    return (
        f"MISO, training on slices of an A100 40 GB ({found.split}; bar: no false fits, at most "
        "3 % false does-not-fit)",
        FITS,
        rows,
    )


def host_table(found: list[HostFigures]) -> Table:
    """Our own runs."""
    rows: list[tuple[str, ...]] = [
        (h.framework, h.task, str(h.rows), str(h.models), f"{h.median_error:.1%}",
         f"{h.mean_error:.1%}", f"{h.worst_error:.1%}", f"{h.inside:.1%}")
        for h in found
    ]  # fmt: skip
    return "our own CPU runs, peak of host memory with loading (leave-one-model-out)", HOST, rows


def evaluate_memory(advance: Callable[[str], None] = lambda _: None) -> MemoryEvaluation:
    """Everything. Raises ToolMissing where a data set is absent."""
    printed = printed_figures()
    advance("table 4.5")
    slices = slice_fits()
    advance("MISO")
    host = host_figures()
    advance("own runs")
    return MemoryEvaluation(printed, slices, host)


def learn_constants() -> RuntimesFile:
    """Return all constants from all labels. Raises ToolMissing where a data set is absent."""
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
    training = [
        row for row in rows if row.framework == "torch" and row.need.task is MemoryTask.TRAINING
    ]
    return RuntimesFile(
        schema="berth.footprint-runtimes/1",
        runtimes={
            RuntimeName.GPU_FORWARD: FrameworkMemory(
                memory=DeviceMemory(context_bytes=context, share=fitted.share),
                framework="PyTorch 1.13.1, CUDA 11.7",
                source="thesis, table 4.5, and DIPPM's dippm.py: A100 40 GB, fp32",
                labels=len(measured),
                models=len({case.printed.model for case in measured}),
                limits="labels are recorded forward passes on an A100; not other GPUs, "
                "precisions, versions, nor inference without recording",
            ),
            RuntimeName.GPU_TRAINING: FrameworkMemory(
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


def _hosted(rows: list[Hosted], framework: str) -> FrameworkMemory:
    return FrameworkMemory(
        memory=fit_host(rows),
        framework=framework,
        source="our own runs on epyc-genoa-vm, fp32, one thread",
        labels=len(rows),
        models=len({row.model for row in rows}),
        limits="labels are small models (at most 23 million parameters, batch 8)",
    )


def write(found: RuntimesFile, path: Path) -> None:
    """Write JSON that people can read."""
    write_text(path, found.model_dump_json(by_alias=True, indent=1) + "\n")


def evaluate(_: Options) -> Report:
    """Report table 4.5, MISO's slices and our own runs, each model left out."""
    with step_bar("evaluating", STEPS) as advance:
        found = evaluate_memory(advance)
    wrong = ", ".join(found.slices.rows[0].wrong) or "none"
    return Report(
        "Predicted memory of model graphs",
        sections=tuple(Section(title, header, rows) for title, header, rows in found.tables()),
        data=found.as_dict(),
        after=(
            f"Refused slices that would have run: {wrong}.",
            "Unverified: inference without recording, other GPUs and precisions, energy.",
        ),
    )


def train(options: Options) -> str:
    """Write ``runtimes.json``, what frameworks add to a graph's memory, into the folder."""
    constants = learn_constants()
    write(constants, options.bundle / "runtimes.json")
    labels = sum(one.labels for one in constants.runtimes.values())
    return f"{labels} labels of {len(constants.runtimes)} runtimes"
