"""Which models ``berth pilot dl`` should measure on a platform that nothing was learnt on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.plugin.cli.train.training_input import require_training
from berth.predictor.hardware import platforms as catalogue


def advise_models(
    source: Path, name: str, files: Sequence[Path], count: int, *, folder: Path | None
) -> list[Path]:
    """Which of the ONNX ``files`` to measure on platform ``name``, the most telling first."""
    require_training("advice")
    from berth.predictor.families.graph.latency.features import work_of  # noqa: PLC0415
    from berth.predictor.families.graph.latency.transfer.bundle import DEFAULT_TRANSFER  # noqa: PLC0415
    from berth.predictor.graphs.reader import read_graph  # noqa: PLC0415
    from berth.predictor.graphs.roofline import native_numbers  # noqa: PLC0415
    from berth.predictor.hardware.roofs import roofs  # noqa: PLC0415
    from berth.predictor.learning.graphs.adapt import advised  # noqa: PLC0415

    if not files:
        raise UsageError("no model is given", hint="name the .onnx files that could be measured")
    known = catalogue.load(folder)
    roof = roofs(known)[catalogue.get(name, known).name]
    graphs = [read_graph(path, batch=1) for path in files]
    order = advised(
        DEFAULT_TRANSFER if source == Path("default") else source,
        [work_of(graph) for graph in graphs], (roof, native_numbers(graphs[0])), batch=1,
        count=count,
    )  # fmt: skip
    return [files[place] for place in order]
