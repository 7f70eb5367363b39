"""Options for what a workload's file does not contain, shared by all commands that read one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from berth.pilot.errors import UsageError
from berth.pilot.profile import Target
from berth.pilot.units import whole_number
from berth.plugin.cli.options import POSITIVE, seconds_of
from berth.plugin.workloads.files import WorkloadOptions

F = TypeVar("F", bound=Callable[..., Any])
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
BITS = {"fp16": 16.0, "bf16": 16.0, "fp32": 32.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0, "int4": 4.0}
"""Bits of a number; the same as ``families.language_model.load.QUANTISED``, which is slow to
import."""
_GRAPHS, _MODELS = "Model graphs:", "Language models:"
_PARALLEL = ("tensor", "pipeline", "data", "expert")
_SERVING = {
    "max_num_seqs": "most_sequences",
    "gpu_memory_utilization": "memory_share",
    "max_num_batched_tokens": "chunk_tokens",
    "prefix_hit_rate": "prefix_hit_rate",
}
"""The workload's field of each option of a server."""
_NOT_PREDICTED = {
    ("speculative", "mtp", "draft", "acceptance"): (
        "speculative decoding is not predicted",
        "measured beside servers without it (DeepSeek-R1, MTP): each token 1.05 to 1.9 times "
        "faster, 1.3 in the middle; the first token as late or 1.2 times later",
    ),
    ("rate", "arrival"): (
        "an arrival rate is not predicted",
        "give --batch: requests a second times the seconds of a request are the requests at once",
    ),
    ("disagg", "prefill"): (
        "servers with prefill and decoding on different GPUs are not predicted",
        "predict each part: --tokens 1024,1 for prefill, --tokens 1,128 for decoding",
    ),
}
"""Error and hint for keys that contain one of these words."""
_RUNTIME = click.Option(["--runtime"], help="Slices: of a job on the whole GPU, for example 2h.")
_USUAL: tuple[click.Option, ...] = (
    click.Option(["--mode"], type=click.Choice(("inference", "training")),
                 help=f"{_GRAPHS} one run, or a training step [inference]."),
    click.Option(["--batch"], type=POSITIVE,
                 help=f"{_GRAPHS} samples at once. {_MODELS} requests at once."),
    click.Option(["--precision"], type=click.Choice(PRECISIONS),
                 help=f"{_GRAPHS} computed in [the file's]."),
    click.Option(["--amount"],
                 help="Work of a job: '500 steps', '90 epochs of 5004 steps', '1e6 tokens'."),
)  # fmt: skip
_ALL: tuple[click.Option, ...] = (
    *_USUAL,
    click.Option(["--dim"], multiple=True,
                 help=f"{_GRAPHS} NAME=SIZE or AXIS=SIZE of an open dimension."),
    click.Option(["--tokens"], metavar="IN,OUT",
                 help=f"{_MODELS} tokens of a prompt and of an answer [1024,128]."),
    click.Option(["--framework"], help=f"{_MODELS} what serves them [vllm]."),
    click.Option(["--quantise"], metavar="BITS|weights=BITS,cache=BITS",
                 help=f"{_MODELS} weights in so many bits [the checkpoint's], KV cache [fp16]; "
                      f"of {', '.join(BITS)}."),
    click.Option(["--parallel"], metavar="KIND=N,...",
                 help=f"{_MODELS} tensor=N GPUs that share layers, pipeline=N stages of "
                      "layers, expert=N groups of experts. These and graphs: data=N copies, of a "
                      "graph one on each GPU."),
    click.Option(["--serving"], metavar="KEY=VALUE,...",
                 help=f"{_MODELS} options of the server, as vLLM calls them: "
                      "max_num_seqs, gpu_memory_utilization, max_num_batched_tokens, "
                      "prefix_hit_rate."),
    click.Option(["--runs-on"],
                 help="Devices it can run on, of cpu,cuda,hip. Default: the file's."),
    _RUNTIME,
)  # fmt: skip


def workload_options(command: F) -> F:
    """Add all options, given to the command as ``described``, a WorkloadOptions."""
    return _with(_ALL, command)


def usual_workload_options(command: F) -> F:
    """Add the options that most files need: what needs another is added to the store first."""
    return _with((*_USUAL, _RUNTIME), command)


def _with(options: Sequence[click.Option], command: F) -> F:
    @functools.wraps(command)
    def read(**arguments: Any) -> Any:  # click's arguments
        values = {option.name: arguments.pop(option.name) for option in options if option.name}
        absent = {option.name: () if option.multiple else None for option in _ALL if option.name}
        return command(described=_described({**absent, **values}), **arguments)

    parameters = getattr(command, "__click_params__", [])
    read.__click_params__ = [*parameters, *reversed(options)]  # type: ignore[attr-defined]
    return read  # type: ignore[return-value]


def _described(values: dict[str, Any]) -> WorkloadOptions:
    bits = _bits(values.pop("quantise"))
    shares = _pairs("--parallel", values.pop("parallel"), _PARALLEL)
    parallel = {kind: _count("--parallel", text) for kind, text in shares.items()}
    runtime = values.pop("runtime")
    input_tokens, output_tokens = _tokens(values.pop("tokens"))
    return WorkloadOptions(
        sizes=read_sizes(values.pop("dim")),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        weight_bits=bits.get("weights"),
        kv_bits=bits.get("cache"),
        runs_on=_targets(values.pop("runs_on")),
        runtime_s=None if runtime is None else seconds_of("--runtime", runtime),
        tensor_parallel=parallel.get("tensor"),
        pipeline_parallel=parallel.get("pipeline"),
        data_parallel=parallel.get("data"),
        expert_parallel=parallel.get("expert"),
        serving=_serving(values.pop("serving")),
        **values,
    )


def _pairs(option: str, text: str | None, names: Sequence[str]) -> dict[str, str]:
    """Return the numbers of an option such as ``tensor=2,data=4`` by name. Raises UsageError."""
    pairs = dict(word.strip().partition("=")[::2] for word in (text or "").split(",") if word)
    for name, value in pairs.items():
        if name not in names or not value:
            shown = ",".join(f"{known}=..." for known in names)
            raise UsageError(f"{option} {text!r}: {name!r}", hint=f"write of: {shown}")
    return pairs


def _serving(text: str | None) -> dict[str, float]:
    for word in (text or "").lower().split(","):
        key = word.partition("=")[0].strip()
        for parts, (error, hint) in _NOT_PREDICTED.items():
            if key not in _SERVING and any(part in key for part in parts):
                raise UsageError(f"--serving {key}: {error}", hint=hint)
    fields = {}
    for name, value in _pairs("--serving", text, tuple(_SERVING)).items():
        try:
            number = float(value)
        except ValueError:
            raise UsageError(f"--serving {name}: {value!r} is not a number") from None
        fields[_SERVING[name]] = int(number) if number.is_integer() and number > 1 else number
    return fields


def _count(option: str, text: str) -> int:
    """Read a whole number from 1 on. Raises UsageError."""
    number = whole_number(text, 10**8)
    if not number:
        raise UsageError(f"{option}: {text!r} is not a whole number from 1 on")
    return number


def _tokens(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    prompt, comma, answer = text.partition(",")
    if not comma:
        raise UsageError(f"--tokens {text!r} is not IN,OUT", hint="write: --tokens 1024,128")
    return _count("--tokens", prompt), _count("--tokens", answer)


def _bits(text: str | None) -> dict[str, float]:
    if text is not None and "=" not in text:
        text = f"weights={text}"
    named = _pairs("--quantise", text, ("weights", "cache"))
    for value in named.values():
        if value not in BITS:
            raise UsageError(f"--quantise {value!r}: there are {', '.join(BITS)}")
    return {name: BITS[value] for name, value in named.items()}


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
