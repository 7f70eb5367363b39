"""Reports what a job used: each value by its best source, with what other sources say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.pilot.units import format_bytes, format_elapsed
from berth.pilot.usage.record import Usage
from berth.plugin.history.disagreements import by_trust, value_text
from berth.plugin.report.parts import Part
from berth.plugin.store import PlacedRun

_NAMES: Mapping[str, str] = {
    "cpu_time_s": "Processor time",
    "peak_bytes": "Host memory at most",
    "gpus": "GPUs",
    "gpu_peak_bytes": "GPU memory at most",
    "gpu_utilisation": "GPU busy",
    "gpu_memory_utilisation": "GPU memory busy",
    "disk_read_bytes": "Read from disk",
    "disk_written_bytes": "Written to disk",
    "oom_kills": "Processes killed for memory",
    "cpu_stalled_s": "Waited for a core",
    "memory_stalled_s": "Waited for memory",
    "io_stalled_s": "Waited for storage",
}
"""Names for people of a usage's values (``berth.pilot.usage.record.VALUES``), in their order."""


def usage_part(
    usages: Sequence[Usage], outcome: PlacedRun, asked_bytes: float | None = None
) -> Part:
    """Return the report section on what was recorded of one job.

    ``asked_bytes``: the memory per node that the job asked for; None: not known.
    """
    facts = []
    for key, name in _NAMES.items():
        recorded = by_trust(usages, key)
        if not recorded:
            continue
        best, *others = recorded
        text = _text(key, best.value)
        if key == "cpu_time_s" and outcome.elapsed_s and outcome.cores:
            busy = best.value / outcome.elapsed_s
            text += f": {busy:.1f} of {outcome.cores} cores busy ({busy / outcome.cores:.0%})"
        elif key == "peak_bytes" and asked_bytes:
            text += f" of {format_bytes(asked_bytes)} asked ({best.value / asked_bytes:.0%})"
        sources = [best.source, *(f"{each.source}: {_text(key, each.value)}" for each in others)]
        facts.append((name, f"{text} ({'; '.join(sources)})"))
    lacks = [f"{usage.source} lacks: {usage.lacks}" for usage in usages if usage.lacks]
    return Part("What it used", facts=facts, notes=lacks)


def _text(key: str, value: float) -> str:
    return format_elapsed(value) if key.endswith("_s") else value_text(key, value)
