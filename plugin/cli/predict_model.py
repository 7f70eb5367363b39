"""``berth predict MODEL.onnx``: a deep-learning model's time, energy and price by platform.

A model's times come from ``predictor/model_times.py``: an ordered list of sources.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.units import format_count, format_seconds
from berth.plugin.cli import model_memory
from berth.plugin.cli.bundle_kind import LATENCY, OPERATORS, TRANSFER, kind_of
from berth.plugin.cli.columns import columns
from berth.plugin.cli.intervals import as_numbers
from berth.plugin.cli.predict_training import predict_training
from berth.predictor.core.prediction import Bound

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.predictor.graphs.graph import ModelGraph
    from berth.predictor.graphs.roofline import Roofline, Spot
    from berth.predictor.graphs.what_if import Change
    from berth.predictor.hardware.roofs import Numbers, Roof

F = TypeVar("F", bound=Callable[..., Any])
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
SHOWN = 8
"""Operators in the table of a roofline."""
_FILES = frozenset({
    ".onnx", ".pt", ".pth", ".pt2", ".ckpt", ".keras", ".h5", ".pb", ".pdmodel", ".safetensors",
})  # fmt: skip
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--dim", {"multiple": True, "help": "Model graphs: NAME=SIZE of an open dimension."}),
    ("--precision", {"type": click.Choice(PRECISIONS),
                     "help": "Model graphs: computed in [the file's]."}),
    ("--mode", {"type": click.Choice(("inference", "training")), "default": None,
                "help": "Model graphs: one run, or a training step [inference]."}),
    ("--roofline", {"is_flag": True, "help": "Model graphs: where the time goes under a platform's "
                                             "roofs, and what would help."}),
)  # fmt: skip
_ELSEWHERE = ("size", "cores", "known", "probe", "why", "others")
"""Arguments of the other doors that mean nothing here."""


def model_door(command: F) -> F:
    """``berth predict`` with the options of model graphs; an ONNX file goes here."""

    @functools.wraps(command)
    def opened(**given: Any) -> Any:  # click's arguments
        asked = {name: given.pop(name) for name in ("roofline", "precision", "dim", "mode")}
        path: Path = given["profile"]
        of_graph = any(asked.values())
        if path.suffix in _FILES or (of_graph and _is_config(path)):
            stray = next((name for name in _ELSEWHERE if given.get(name)), None)
            if stray is not None:
                name = {"why": "explain", "others": "a second file"}.get(stray, stray)
                raise UsageError(f"{name} is not for model graphs", hint=f"{path} is a model")
            if asked["mode"] == "training":
                predict_training(path, asked, given)
            else:
                predict_model(path, asked, given)
            return None
        named = next((name for name, value in asked.items() if value), None)
        if named is not None:
            raise UsageError(f"--{named} is for model graphs", hint=f"{path} is no ONNX file")
        return command(**given)

    found: Any = opened
    for flag, settings in _OPTIONS:
        found = click.option(flag, **settings)(found)
    return found  # type: ignore[no-any-return]


def _is_config(path: Path) -> bool:
    from berth.plugin.cli.predict_llm import is_llm_config  # noqa: PLC0415 - only when asked

    return is_llm_config(path)


def predict_model(path: Path, asked: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Rank platforms for the model of ``path``; with ``--roofline`` say why, and what helps."""
    from berth.plugin.cli.workload_options import read_sizes  # noqa: PLC0415 - numpy, only when asked
    from berth.predictor.graphs.doors.any_model import of_path  # noqa: PLC0415
    from berth.predictor.graphs.what_if import changes  # noqa: PLC0415
    from berth.predictor.hardware import platforms as catalogue  # noqa: PLC0415
    from berth.predictor.hardware.roofs import Numbers, roofs  # noqa: PLC0415

    if given["picture"] is not None and not asked["roofline"]:
        raise UsageError("--picture of a model shows its roofline", hint="add --roofline")
    sizes = read_sizes(asked["dim"])
    graph = of_path(path, batch=given.get("batch"), sizes=sizes)
    platforms = catalogue.load(given["folder"])
    known = roofs(platforms)
    names = list(dict.fromkeys(given["names"]))
    chosen = [catalogue.get(name, platforms).name for name in names] or list(known)
    numbers = Numbers(asked["precision"]) if asked["precision"] else None
    places = [known[name] for name in chosen]
    found = predictions(graph, places, numbers, platforms, given.get("bundle"))
    memory = model_memory.Memories(graph, numbers, platforms)
    details: list[tuple[Roofline, list[Change]]] = []
    if asked["roofline"]:

        def at_batch(batch: int) -> ModelGraph | None:
            try:
                return of_path(path, batch=batch, sizes=sizes)
            except DocumentError:
                return None

        looked_at = [one for one in found if one.roof.platform in names] or found[:1]
        details = [(one, changes(graph, one, known, at_batch)) for one in looked_at]
    name = path.name if path.suffix in _FILES else path.parent.name or path.name
    if given["as_json"]:
        click.echo(json.dumps(_document(name, graph, found, details, memory), indent=2))
    else:
        _show(name, graph, found, details, memory)
    if given["picture"] is not None:
        from berth.plugin.pictures import roofline as roofline_picture  # noqa: PLC0415

        roofline_picture.draw(given["picture"], name, [one for one, _ in details])
        click.echo(f"picture written to {given['picture']}", err=True)


def predictions(
    graph: ModelGraph,
    places: Sequence[Roof],
    numbers: Numbers | None,
    platforms: Mapping[str, Platform],
    bundle: Path | None = None,
) -> list[Roofline]:
    """The model on each place, those where it fits first, fastest first.

    ``bundle`` takes the place of the shipped one of its kind. Raises UsageError for other kinds.
    """
    from berth.predictor.families.graph.times import sources, times  # noqa: PLC0415 - numpy

    if bundle is None:
        return times(graph, places, platforms, numbers)
    kind = kind_of(bundle)
    if kind == LATENCY:
        return times(graph, places, platforms, numbers, sources(latency=bundle))
    if kind == OPERATORS:
        return times(graph, places, platforms, numbers, sources(operator=bundle))
    if kind == TRANSFER:
        from berth.predictor.families.graph.latency.transfer import bundle as transfer  # noqa: PLC0415
        from berth.predictor.families.graph.latency.transfer import serve  # noqa: PLC0415

        found = times(graph, places, platforms, numbers)
        return serve.with_samples(found, graph, transfer.load(bundle), platforms)
    raise UsageError(
        f"{bundle} holds no times of model graphs",
        hint="`python -m lab model-latency --train`, operators or model-transfer makes one; "
        "--mode training takes one of dl-training",
    )


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
    click.echo(columns(header, rows))
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
