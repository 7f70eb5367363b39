"""``berth predict MODEL.onnx``: a deep-learning model's time, energy and price by platform.

Times are the forecast's; where the time goes is the roofline's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import DocumentError
from berth.pilot.units import format_count, format_seconds
from berth.plugin.cli.output.forecast_text import explain_sources, sources_json
from berth.plugin.cli.output.intervals import as_numbers
from berth.plugin.cli.predict import model_memory
from berth.plugin.cli.predict.asked import Asked
from berth.plugin.report.terminal import columns
from berth.plugin.workloads.files import MODEL_FILES, configuration
from berth.predictor.core.prediction import Basis, Bound

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.predictor.core.forecast import Forecast
    from berth.predictor.core.workload import Workload
    from berth.predictor.graphs.graph import ModelGraph
    from berth.predictor.graphs.roofline import Roofline, Spot
    from berth.predictor.graphs.what_if import Change
    from berth.predictor.hardware.roofs import Roof

SHOWN = 8
"""Operators in the table of a roofline."""


def predict_model(asked: Asked) -> None:
    """Rank platforms for a model's run; with ``--roofline`` show why, and what would help."""
    from berth.predictor.families.graph.kind import ModelWorkload  # noqa: PLC0415 - slow
    from berth.predictor.families.graph.model import graph_of  # noqa: PLC0415 - numpy
    from berth.predictor.graphs.roofline import roofline  # noqa: PLC0415
    from berth.predictor.graphs.what_if import changes  # noqa: PLC0415
    from berth.predictor.hardware.device import Numbers  # noqa: PLC0415
    from berth.predictor.hardware.roofs import roofs  # noqa: PLC0415

    asked.check("--roofline", "--picture")
    document = asked.workload.document
    assert isinstance(document, ModelWorkload)  # noqa: S101 - by its kind
    graph = graph_of(document)
    known = roofs(asked.platforms)
    numbers = Numbers(document.precision) if document.precision else None
    forecast = asked.forecast(asked.chosen())
    found = [
        _from(
            forecast, roofline(graph, known[name], numbers), asked.platforms[name], asked.workload
        )
        for name in forecast.curves
    ]
    found.sort(key=_order)
    memory = model_memory.Memories(graph, numbers, asked.platforms)
    details: list[tuple[Roofline, list[Change]]] = []
    if asked.roofline:
        looked_at = [one for one in found if one.roof.platform in asked.names] or found[:1]
        at_batch = _at_batch(asked.path, asked.sizes)
        details = [(one, changes(graph, one, known, at_batch)) for one in looked_at]
    name = document.file or document.name
    if asked.as_json:
        answer = _document(name, graph, found, details, memory)
        answer |= {"unit": forecast.unit.value, "amount": asked.workload.amount.steps}
        for row in answer["predictions"]:
            row["sources"] = sources_json(forecast, row["platform"])
        click.echo(json.dumps(answer, indent=2))
    else:
        _show(name, graph, found, details, memory)
        steps = asked.workload.amount.steps
        if steps is not None:
            click.echo(f"A job does {steps:g} such runs; `berth place` ranks by the whole.")
        if asked.why:
            explain_sources(forecast, [one.roof.platform for one in found])
    if not asked.roofline:
        asked.draw_times((one.roof.platform, one.seconds, _usable(one)) for one in found)
    elif asked.picture is not None:
        from berth.plugin.pictures import roofline as roofline_picture  # noqa: PLC0415

        roofline_picture.draw(asked.picture, name, [one for one, _ in details])
        click.echo(f"picture written to {asked.picture}", err=True)


def _from(forecast: Forecast, one: Roofline, platform: Platform, workload: Workload) -> Roofline:
    """The roofline with the forecast's time of one run, its basis and sources."""
    name = platform.name
    predicted = forecast.at(name, 1 if platform.is_gpu else platform.cores)
    assert predicted is not None  # noqa: S101 - of a platform that is forecast
    runs = workload.amount.steps if forecast.whole_job else None
    shares = forecast.sources.get(name, ())
    source = shares[0].source.removeprefix("graph: ") if len(shares) == 1 else ""
    return replace(
        one,
        roof=_of_all(one.roof, max(1, predicted.gpus)),
        seconds=predicted.runtime_s if runs is None else predicted.runtime_s.scaled(1 / runs),
        basis=predicted.basis,
        source=source or forecast.source_of(name),
        note="; ".join(filter(None, (shares[0].situation if shares else "", predicted.abstained))),
    )


def _of_all(roof: Roof, gpus: int) -> Roof:
    """What so many GPUs draw and cost together."""
    watts, price = roof.power_w, roof.price_per_hour
    return replace(
        roof,
        power_w=None if watts is None else watts * gpus,
        price_per_hour=None if price is None else price * gpus,
    )


def _usable(one: Roofline) -> bool:
    return one.fits and one.basis is not Basis.PRIOR


def _order(one: Roofline) -> tuple[bool, bool, float, str]:
    return not _usable(one), not one.fits, one.seconds.mid, one.roof.platform


def _at_batch(path: Path, sizes: Mapping[str, int]) -> Callable[[int], ModelGraph | None]:
    """The same model at another batch, where its file is at hand."""
    from berth.predictor.graphs.front_ends.any_model import of_path  # noqa: PLC0415

    def made(batch: int) -> ModelGraph | None:
        if path.suffix not in MODEL_FILES and configuration(path) is None:
            return None
        try:
            return of_path(path, batch=batch, sizes=sizes)
        except DocumentError:
            return None

    return made


def _document(
    name: str,
    graph: ModelGraph,
    found: Sequence[Roofline],
    details: Sequence[tuple[Roofline, Sequence[Change]]],
    memory: model_memory.Memories,
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "model": name,
        "graph": graph.digest,
        "batch": graph.batch,
        "flops": graph.total_flops,
        "parameters": graph.parameters,
        "unknown_operators": dict(graph.unknown),
        "predictions": [
            {
                "platform": one.roof.platform,
                "basis": one.basis.value,
                "source": one.source,
                "note": one.note,
                "precision": one.numbers.value,
                "runtime_s": as_numbers(one.seconds),
                "samples_per_s": one.samples_per_s,
                **model_memory.memory_json(one, memory),
                "price": as_numbers(one.price),
                "bound": one.bound.value,
            }
            for one in found
        ],
        "mig": {
            platform: model_memory.slice_json(profile)
            for platform, profile in model_memory.slices(found, memory).items()
        },
        "unverified": ["energy_j", "mig slowdown"],
    }
    if details:
        document["rooflines"] = [
            {
                "platform": one.roof.platform,
                "time_shares": {b.value: one.time_share(b) for b in _BOUNDS},
                "operators": [_spot(spot) for spot in one.spots],
                "what_if": [
                    {"change": c.name, "to": c.to, "gain": c.gain, "note": c.note} for c in helping
                ],
            }
            for one, helping in details
        ]
    return document


_BOUNDS = (Bound.COMPUTE, Bound.MEMORY, Bound.LAUNCH)


def _spot(spot: Spot) -> dict[str, Any]:
    return {
        "operator": spot.operator, "nodes": spot.nodes, "output": list(spot.output_shape),
        "flops": spot.flops, "moved_bytes": spot.moved_bytes, "intensity": spot.intensity,
        "seconds": spot.seconds, "bound": spot.bound.value,
    }  # fmt: skip


def _show(
    name: str,
    graph: ModelGraph,
    found: Sequence[Roofline],
    details: Sequence[tuple[Roofline, Sequence[Change]]],
    memory: model_memory.Memories,
) -> None:
    click.echo(
        f"{name}, batch {graph.batch}, {found[0].numbers.value}: {len(graph)} nodes, "
        f"{format_count(graph.total_flops)}FLOPs, {format_count(graph.parameters)} parameters\n"
    )
    header = ("platform", "time", "90 % interval", "samples/s", "memory (95 %)", "energy",
              "price", "bound", "basis")  # fmt: skip
    rows = [
        (
            one.roof.platform, format_seconds(one.seconds.mid),
            f"{format_seconds(one.seconds.low)} to {format_seconds(one.seconds.high)}",
            f"{one.samples_per_s:.4g}",
            memory.words(one.roof),
            f"{drawn.joules.mid:.3g} J" if (drawn := memory.energy(one)) else "-",
            f"{one.price.mid:.3g}" if one.price else "-", one.bound.value, one.basis.value,
        )
        for one in found
    ]  # fmt: skip
    click.echo(columns(header, rows, first=sum(map(_usable, found))))
    for one, helping in details:
        _show_roofline(one, helping)
    click.echo(_told_by(found))
    if any(one.roof.is_gpu for one in found):
        click.echo(memory.tasks_on_gpu())
    for platform, profile in model_memory.slices(found, memory).items():
        click.echo(f"MIG on {platform}: {profile.reason}")
    if any(one.energy_j for one in found):
        click.echo(
            "Energy: the platform's power under load while kernels run, idle power while launches "
            "bound; unverified."
        )
    if not all(one.roof.matrix_known or not one.roof.is_gpu for one in found):
        click.echo("GPUs without a data sheet here are taken at their fp32 rate.")
    if graph.unknown:
        click.echo(f"Unknown operators count no operations: {', '.join(sorted(graph.unknown))}")


_ROOFLINE = (
    "the roofline, at the share of it that operators were measured to reach elsewhere in fp32 one "
    "after the other; no run of this model"
)


def _told_by(found: Sequence[Roofline]) -> str:
    """Where the times are from, and why some intervals are wide."""
    by_source: dict[tuple[str, str], list[str]] = {}
    for one in found:
        by_source.setdefault((one.basis.value, one.source), []).append(one.roof.platform)
    lines = [
        f"{basis}: {_ROOFLINE if source == 'roofline' else source}"
        + ("" if len(names) == len(found) else f" ({_listed(names)})") + "."
        for (basis, source), names in by_source.items()
    ]  # fmt: skip
    by_note: dict[str, list[str]] = {}
    for one in found:
        for note in one.note.split("; ") if one.note else ():
            by_note.setdefault(note, []).append(one.roof.platform)
    lines += [
        f"{'everywhere' if len(names) == len(found) > 1 else _listed(names)}: {note}."
        for note, names in by_note.items()
    ]
    return "\n" + "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN else f"{len(names)} platforms"


def _show_roofline(one: Roofline, helping: Sequence[Change]) -> None:
    parts = ", ".join(f"{one.time_share(b):.0%} {b.value}" for b in _BOUNDS)
    click.echo(f"\n{one.roof.platform}: {one.bound.value}-bound ({parts} of the time)")
    whole = sum(spot.seconds for spot in one.spots)
    rows = [
        (
            spot.operator, f"{list(spot.output_shape)}", f"{spot.nodes}x",
            f"{spot.intensity:.1f}", f"{format_count(spot.flops_per_s)}FLOP/s",
            format_seconds(spot.seconds), f"{spot.seconds / whole:.1%}", spot.bound.value,
        )
        for spot in one.spots[:SHOWN]
    ]  # fmt: skip
    header = ("operator", "output", "nodes", "FLOPs/byte", "reaches", "time", "share", "bound")
    click.echo(columns(header, rows))
    left = one.spots[SHOWN:]
    if left:
        share = sum(spot.seconds for spot in left) / whole
        click.echo(f"  and {len(left)} more kinds of operators: {share:.1%}")
    click.echo("What would help" if helping else "Nothing that was tried would help by over 2 %.")
    for change in helping:
        click.echo(f"  {change.sentence()}")
