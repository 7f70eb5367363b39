"""All figures of predicted memory, and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lab.footprint.host_memory import HostFigures, host_figures
from lab.footprint.printed_table import PrintedFigures, printed_figures
from lab.footprint.slice_fits import SliceFits, slice_fits

STEPS = 3
CASES = ("model", "batch", "actual", "DIPPM", "predicted", "95 % interval", "error", "profile",
         "right")  # fmt: skip
FITS = ("predicted by", "from", "false fits", "false does-not-fit", "share")
BASELINES = ("predicted by", "mean error", "worst", "profiles right")
HOST = ("framework", "task", "by", "rows", "models", "median", "mean", "worst", "in 95 %")

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class MemoryEvaluation:
    """Section ``memory``."""

    printed: PrintedFigures
    slices: SliceFits
    host: list[HostFigures]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        found["printed"]["profiles_right"] = self.printed.profiles_right
        return found

    def tables(self) -> Iterator[Table]:
        """(title, header, rows) of each table."""
        yield from printed_tables(self.printed)
        yield slices_table(self.slices)
        yield host_table(self.host)


def printed_tables(found: PrintedFigures) -> Iterator[Table]:
    """Table 4.5 by us, and by others."""
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
    yield (
        f"thesis, table 4.5, A100 40 GB, forward passes that autograd recorded, MiB "
        f"({found.split}): profile right in {right} of {asked} (bar 6 of 6), "
        f"memory off by {np.mean(errors):.1%} (mean), {inside} of {labelled} in the interval",
        CASES,
        cases,
    )
    baselines: list[tuple[str, ...]] = [
        (r.name, f"{np.mean(r.errors):.1%}", f"{max(r.errors):.1%}",
         f"{r.profiles_right} of {asked}")
        for r in found.baselines
    ]  # fmt: skip
    yield "the same cases by others", BASELINES, baselines


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
    rows: list[tuple[str, ...]] = []
    for h in found:
        held = "-" if h.inside is None else f"{h.inside:.1%}"
        rows.append(
            (h.framework, h.task, "graph", str(h.rows), str(h.models), f"{h.median_error:.1%}",
             f"{h.mean_error:.1%}", f"{h.worst_error:.1%}", held)
        )  # fmt: skip
        rows += [
            (h.framework, h.task, name, str(h.rows), str(h.models), f"{median:.1%}",
             f"{mean:.1%}", "", "")
            for name, (median, mean) in h.baselines.items()
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
