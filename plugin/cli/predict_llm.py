"""``berth predict CONFIG.json``: a language model's throughput, latency and memory by platform."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from berth.pilot.documents import MAX_DOCUMENT_BYTES
from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.intervals import as_numbers
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.language_model.config import LanguageModel, is_config, read_config
from berth.predictor.families.language_model.load import QUANTISED, Load
from berth.predictor.families.language_model.predictor import (
    UNVERIFIED,
    LlmPredictor,
    ServingPrediction,
)
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.accelerators import devices, get

F = TypeVar("F", bound=Callable[..., Any])
_COUNT = click.IntRange(min=1)
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--batch", {"type": _COUNT, "help": "Language models: sequences at a time."}),
    ("--input-tokens", {"type": _COUNT, "help": "Language models: tokens of a prompt [1024]."}),
    ("--output-tokens", {"type": _COUNT, "help": "Language models: tokens of an answer [128]."}),
    ("--framework", {"help": "Language models: what serves them [vllm]."}),
    ("--quantise", {"type": click.Choice(tuple(QUANTISED)),
                    "help": "Language models: weights in so many bits [the checkpoint's]."}),
    ("--quantise-cache", {"type": click.Choice(tuple(QUANTISED)),
                          "help": "Language models: KV cache in so many bits [fp16]."}),
    ("--tensor-parallel", {"type": _COUNT, "help": "Language models: GPUs that share layers [1]."}),
    ("--pipeline-parallel", {"type": _COUNT, "help": "Language models: stages of layers [1]."}),
    ("--data-parallel", {"type": _COUNT, "help": "Language models: replicas [1]."}),
    ("--expert-parallel", {"type": _COUNT, "help": "Language models: groups of experts [1]."}),
    ("--carbon-intensity", {"type": click.FloatRange(min=0),
                            "help": "Language models: grams of CO2 a kWh."}),
)  # fmt: skip
_OF_PROFILES = ("size", "cores", "known", "probe", "why", "picture")
_NAMES = tuple(flag.removeprefix("--").replace("-", "_") for flag, _ in _OPTIONS)


def llm_door(command: F) -> F:
    """``berth predict`` with the options of language models; a ``config.json`` goes here."""

    @functools.wraps(command)
    def opened(**given: Any) -> Any:  # click's arguments
        asked = {name: given.pop(name) for name in _NAMES}
        path: Path = given["profile"]
        if is_llm_config(path):
            other = next((n for n in _OF_PROFILES if given.get(n)), None)
            if other is not None:
                name = "explain" if other == "why" else other
                raise UsageError(f"--{name} is for profiles", hint=f"{path} is a language model")
            predict_llm(
                path, asked, given["names"], given["folder"], given["bundle"],
                as_json=given["as_json"],
            )  # fmt: skip
            return None
        stray = next((name for name, value in asked.items() if value is not None), None)
        if stray is not None:
            raise UsageError(
                f"--{stray.replace('_', '-')} is for language models",
                hint=f"{path} is not a Hugging Face config.json",
            )
        return command(**given)

    found: Any = opened
    for flag, settings in reversed(_OPTIONS):
        found = click.option(flag, **settings)(found)
    return found  # type: ignore[no-any-return]


def is_llm_config(path: Path) -> bool:
    """True where the file is JSON that looks like a Hugging Face configuration."""
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > MAX_DOCUMENT_BYTES:
        return False
    try:
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError, OSError):
        return False
    return isinstance(raw, dict) and is_config(raw)


def predict_llm(
    path: Path,
    asked: dict[str, Any],
    names: Sequence[str],
    folder: Path | None,
    bundle: Path | None,
    *,
    as_json: bool,
) -> None:
    """Rank accelerators for the model of ``path``."""
    model = read_config(path)
    bits = asked["quantise"]
    work = Load(
        batch=asked["batch"] or 1,
        input_tokens=asked["input_tokens"] or 1024,
        output_tokens=asked["output_tokens"] or 128,
        weight_bits=QUANTISED[bits] if bits else model.weight_bits,
        kv_bits=QUANTISED[asked["quantise_cache"] or "fp16"],
        tensor_parallel=asked["tensor_parallel"] or 1,
        pipeline_parallel=asked["pipeline_parallel"] or 1,
        data_parallel=asked["data_parallel"] or 1,
        expert_parallel=asked["expert_parallel"] or 1,
    )
    places = devices(known.load(folder))
    chosen = [get(name, places) for name in names] or list(places.values())
    predictor = LlmPredictor.load(bundle)
    framework = (asked["framework"] or "vllm").lower()
    found = predictor.predict(model, work, chosen, framework, asked["carbon_intensity"])
    found.sort(key=lambda p: (not p.fits, -p.throughput.mid, p.device))
    if as_json:
        click.echo(json.dumps(_document(model, work, predictor, framework, found), indent=2))
    else:
        _show(model, work, predictor, framework, found)


def _document(
    model: LanguageModel,
    work: Load,
    predictor: LlmPredictor,
    framework: str,
    found: Sequence[ServingPrediction],
) -> dict[str, Any]:
    return {
        "model": model.name,
        "family": model.family,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "bundle": predictor.model.id,
        "framework": framework,
        "batch": work.batch,
        "input_tokens": work.input_tokens,
        "output_tokens": work.output_tokens,
        "weight_bits": work.weight_bits,
        "kv_bits": work.kv_bits,
        "gpus": work.gpus,
        "predictions": [
            {
                "platform": p.device,
                "basis": p.basis.value,
                "latency_basis": p.latency_basis.value,
                "fits": p.fits,
                "tokens_per_s": as_numbers(p.throughput) if p.fits else None,
                "ttft_s": as_numbers(p.ttft_s) if p.fits else None,
                "tpot_s": as_numbers(p.tpot_s) if p.fits else None,
                "memory_bytes": as_numbers(p.memory.peak),
                "memory_least_bytes": p.memory.least,
                "resident_sequences": round(min(p.resident, 1e6), 1),
                "energy_j_per_token": as_numbers(p.energy_j_per_token) if p.fits else None,
                "price_per_million_tokens": as_numbers(p.price_per_million) if p.fits else None,
                "carbon_g_per_million_tokens": (
                    as_numbers(p.carbon_g_per_million) if p.fits else None
                ),
                "bound": p.bound.value,
                "from": p.source,
                "abstained": p.abstained,
            }
            for p in found
        ],
        "unverified": ["memory_bytes", "energy_j_per_token", "carbon_g_per_million_tokens"],
    }


def _show(
    model: LanguageModel,
    work: Load,
    predictor: LlmPredictor,
    framework: str,
    found: Sequence[ServingPrediction],
) -> None:
    console = Console(highlight=False)
    wide = Console(highlight=False, width=max(console.width, 130)) if console.is_terminal else None
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in (
        ("platform", "left"), ("tokens/s", "right"), ("90 % interval", "left"),
        ("first token", "right"), ("each token", "right"), ("memory, at most", "right"),
        ("fits", "left"), ("J/token", "right"), ("price/M", "right"), ("g CO2/M", "right"),
        ("bound", "left"), ("basis", "left"),
    ):  # fmt: skip
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for p in found:
        shown = (
            f"{p.throughput.mid:.4g}", f"{p.throughput.low:.3g} to {p.throughput.high:.3g}",
            format_seconds(p.ttft_s.mid), format_seconds(p.tpot_s.mid),
        ) if p.fits else ("-", "", "-", "-")  # fmt: skip
        table.add_row(
            p.device,
            *shown,
            format_bytes(p.memory.peak.high),
            _fits(p, work),
            *(_mid(v if p.fits else None)
              for v in (p.energy_j_per_token, p.price_per_million, p.carbon_g_per_million)),
            p.bound.value if p.fits else "",
            (p.basis.value if p.fits else "") + (" (abstains)" if p.abstained else ""),
            style="dim" if p.abstained else None,
        )  # fmt: skip
    click.echo(
        f"{model.name}: {model.family}, {model.parameters / 1e9:.3g} billion parameters, "
        f"{work.weight_bits:g}-bit weights, {framework}, batch {work.batch}, "
        f"{work.input_tokens} + {work.output_tokens} tokens, {work.gpus} "
        f"GPU{'s' * (work.gpus > 1)} of each; bundle {predictor.model.id}\n"
    )
    (wide or Console(highlight=False, width=160)).print(table)
    click.echo()
    for reason in dict.fromkeys(p.abstained for p in found if p.abstained and p.fits):
        click.echo(f"abstains: {reason}")
    if any(p.basis is Basis.PRIOR for p in found):
        click.echo("prior: physics only, with what the framework achieves elsewhere.")
    click.echo(f"Memory (of one GPU), energy and carbon are {UNVERIFIED}.")


def _fits(p: ServingPrediction, work: Load) -> str:
    if not p.fits:
        return "no"
    each = -(-work.batch // work.data_parallel)
    return "yes" if p.resident >= each else f"{int(p.resident)} at a time"


def _mid(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.mid:.3g}"
