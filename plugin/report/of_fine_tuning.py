"""Reports the GPU memory of fine-tuning a decoder, and the accelerators on which it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.units import format_bytes
from berth.plugin.report.parts import Column, Part, Report, Table, data_of
from berth.predictor.core.prediction import Interval
from berth.predictor.families.language_model.load import RUNTIME_BYTES
from berth.predictor.hardware.unit import Unit


@dataclass(frozen=True, slots=True)
class FineTuning:
    """The memory in bytes that fine-tuning needs on each GPU, and the accelerators to compare."""

    title: str
    """The model, the method and the batch, for people."""
    need: Interval
    devices: Sequence[Unit]

    def fits(self, device: Unit) -> str:
        """Return ``yes`` where the usual set-up fits beside the CUDA context, ``lean`` where only a
        leaner one does, ``no`` where the leanest does not."""
        room = device.memory_bytes - RUNTIME_BYTES
        if self.need.mid <= room:
            return "yes"
        return "lean" if self.need.low <= room else "no"

    def columns(self) -> tuple[Column[Unit], ...]:
        """Return the columns of the table of accelerators."""
        return (
            Column("Platform", "platform", lambda device: device.name),
            Column("GPU memory", "memory_bytes", lambda device: device.memory_bytes,
                   format_bytes, "bytes"),
            Column("Fits", "fits", self.fits),
        )  # fmt: skip


def fine_tuning_report(tuning: FineTuning) -> Report:
    """Return the report: the need of memory, and where it fits."""
    low, mid, high = map(format_bytes, (tuning.need.low, tuning.need.mid, tuning.need.high))
    notes = [
        f"needs {mid} on each GPU in a usual set-up ({low} in the leanest to {high} in the "
        "richest); nothing is moved to the host",
        "lean: fits with an 8-bit or paged optimiser and logits in chunks, or less",
        "the time of fine-tuning is not predicted",
    ]
    table = Table("Where it fits", tuning.columns(), list(tuning.devices))
    return Report(tuning.title, "", [Part("", tables=[table], notes=notes)])


def fine_tuning_data(tuning: FineTuning) -> dict[str, Any]:
    """Return the need of memory and the accelerators, for JSON."""
    need = tuning.need
    return {
        "gpu_memory_bytes": {"low": need.low, "mid": need.mid, "high": need.high},
        "platforms": [data_of(tuning.columns(), device) for device in tuning.devices],
    }
