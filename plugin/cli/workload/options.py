"""Options that say what a workload's file does not; the same for every command that reads one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from berth.pilot.errors import UsageError
from berth.pilot.profile import Target
from berth.pilot.units import whole_number
from berth.plugin.cli.options.common import seconds_of
from berth.plugin.workloads.files import WorkloadOptions

F = TypeVar("F", bound=Callable[..., Any])
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
BITS = {"fp16": 16.0, "bf16": 16.0, "fp32": 32.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0, "int4": 4.0}
"""Bits of a number; the same as ``families.language_model.load.QUANTISED``, which is slow to
import."""
_COUNT = click.IntRange(min=1)
_GRAPHS, _MODELS = "Model graphs:", "Language models:"
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--mode", {"type": click.Choice(("inference", "training")),
                "help": f"{_GRAPHS} one run, or a training step [inference]."}),
    ("--batch", {"type": _COUNT, "help": f"{_GRAPHS} samples at once. {_MODELS} requests at "
                                         "once, as --concurrency."}),
    ("--precision", {"type": click.Choice(PRECISIONS),
                     "help": f"{_GRAPHS} computed in [the file's]."}),
    ("--dim", {"multiple": True, "help": f"{_GRAPHS} NAME=SIZE of an open dimension."}),
    ("--input-tokens", {"type": _COUNT, "help": f"{_MODELS} tokens of a prompt [1024]."}),
    ("--output-tokens", {"type": _COUNT, "help": f"{_MODELS} tokens of an answer [128]."}),
    ("--concurrency", {"type": _COUNT, "help": f"{_MODELS} requests at a time [1]."}),
    ("--framework", {"help": f"{_MODELS} what serves them [vllm]."}),
    ("--quantise", {"type": click.Choice(tuple(BITS)),
                    "help": f"{_MODELS} weights in so many bits [the checkpoint's]."}),
    ("--quantise-cache", {"type": click.Choice(tuple(BITS)),
                          "help": f"{_MODELS} KV cache in so many bits [fp16]."}),
    ("--tensor-parallel", {"type": _COUNT, "help": f"{_MODELS} GPUs that share layers [1]."}),
    ("--pipeline-parallel", {"type": _COUNT, "help": f"{_MODELS} stages of layers [1]."}),
    ("--data-parallel", {"type": _COUNT, "help": "Graphs, language models: copies that share the "
                                                 "work, of a graph one on each GPU [1]."}),
    ("--expert-parallel", {"type": _COUNT, "help": f"{_MODELS} groups of experts [1]."}),
    ("--amount", {"help": "How much work a job does: '90 epochs', '500 steps', '10000 requests', "
                          "'1e6 tokens'. Default: not known."}),
    ("--steps-per-epoch", {"type": float, "help": "With --amount in epochs."}),
    ("--runs-on", {"help": "Devices it can run on, of cpu,cuda,hip. Default: the file's."}),
    ("--runtime", {"help": "Slices: of a job on the whole GPU, for example 2h."}),
)  # fmt: skip
_NAMES = tuple(flag.removeprefix("--").replace("-", "_") for flag, _ in _OPTIONS)


def workload_options(command: F) -> F:
    """Add the options, given to the command as ``described``, a WorkloadOptions."""

    @functools.wraps(command)
    def read(**arguments: Any) -> Any:  # click's arguments
        asked = {name: arguments.pop(name) for name in _NAMES}
        return command(described=_described(asked), **arguments)

    decorated: Any = read
    for flag, settings in reversed(_OPTIONS):
        decorated = click.option(flag, **settings)(decorated)
    return decorated  # type: ignore[no-any-return]


def _described(asked: dict[str, Any]) -> WorkloadOptions:
    """Raises UsageError."""
    bits, cache_bits = asked.pop("quantise"), asked.pop("quantise_cache")
    runtime = asked.pop("runtime")
    return WorkloadOptions(
        sizes=read_sizes(asked.pop("dim")),
        weight_bits=None if bits is None else BITS[bits],
        kv_bits=None if cache_bits is None else BITS[cache_bits],
        runs_on=_targets(asked.pop("runs_on")),
        runtime_s=None if runtime is None else seconds_of("--runtime", runtime),
        **asked,
    )


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Read ``--dim NAME=SIZE`` options. Raises UsageError."""
    sizes = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        number = whole_number(size, 10**10)
        if not equals or not name or number is None:
            raise UsageError(f"--dim {text!r} is not NAME=SIZE", hint="write: --dim sequence=128")
        sizes[name] = number
    return sizes


def _targets(text: str | None) -> tuple[Target, ...]:
    try:
        return tuple(Target(word.strip()) for word in text.split(",")) if text is not None else ()
    except ValueError:
        known = ", ".join(target.value for target in Target)
        raise UsageError(f"--runs-on {text!r}: there are {known}") from None
