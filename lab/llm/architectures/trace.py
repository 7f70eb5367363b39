"""Build one model of a family on torch's meta device and record what it holds.

A ``Trace`` has the values of the configuration (defaults filled in by its class), every weight
with its shape, and every tensor that a forward pass leaves in the cache.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.llm.architectures.symbols import Symbol, SymbolFloat, recorded_shapes, shape_texts

TOKENS = 37
"""Length of the forward pass; no size of a configuration equals this prime."""
Shape = tuple[str | int, ...]


@dataclass
class Trace:
    """One model built on the meta device."""

    inputs: Mapping[str, Any]
    """The values that were passed to the configuration's class."""
    values: dict[str, Any]
    """All values of the configuration after its class filled in defaults, flat (``a.b``)."""
    shapes: dict[tuple[str, tuple[int, ...]], Shape] = field(default_factory=dict)
    """Shape of each weight by its name with ``{}`` for indices, and these indices."""
    sizes: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = field(default_factory=dict)
    """The same shapes as plain integers."""
    cache_problem: str = ""
    """Why no cache was recorded; empty: it was."""
    text_prefixes: tuple[str, ...] = ()
    """Beginnings of the names of weights of the language model, in a model that also sees."""

    @property
    def parameters(self) -> int:
        """Return the number of weights, without the cache's tensors."""
        return sum(
            _product(size) for (name, _), size in self.sizes.items() if not name.startswith("cache")
        )


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def config_class(model_type: str) -> Any:
    """Return the transformers class of a family's configuration."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415

    return CONFIG_MAPPING[model_type]


def flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return the plain values of a configuration, those of nested configurations as ``a.b``."""
    values: dict[str, Any] = {}
    for name, value in vars(config).items():
        if name.startswith("_") or name in {"id2label", "label2id"}:
            continue
        if hasattr(value, "attribute_map"):
            values |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, Symbol):
            values[prefix + name] = int.__int__(value)
        elif isinstance(value, SymbolFloat):
            values[prefix + name] = float.__float__(value)
        elif value is None or isinstance(value, bool | int | float | str | list | tuple):
            values[prefix + name] = list(value) if isinstance(value, tuple) else value
    return values


def make_symbolic(config: Any, prefix: str = "") -> None:
    """Replace each number of a configuration by a symbol that has the key's name."""
    for name, value in list(vars(config).items()):
        if name.startswith("_") or name.endswith("token_id"):
            continue
        symbol: Any = value
        if hasattr(value, "attribute_map"):
            make_symbolic(value, f"{prefix}{name}.")
            continue
        if type(value) is int:
            symbol = Symbol(value, prefix + name)
        elif type(value) is float:
            symbol = SymbolFloat(value, prefix + name)
        elif isinstance(value, list) and value and all(type(v) is int for v in value):
            symbol = [Symbol(v, f"{prefix}{name}[{n}]") for n, v in enumerate(value)]
        if symbol is not value:
            with contextlib.suppress(Exception):
                setattr(config, name, symbol)


class TookTooLong(Exception):
    """A forward pass was stopped."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TookTooLong in the body after so many seconds."""

    def stop(*_: Any) -> None:
        raise TookTooLong(f"over {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def model_class(model_type: str, *, seeing: bool = False) -> Any:
    """Return the auto class that serves a family: of chat models, else of models that see (these
    first with ``seeing``)."""
    import transformers  # noqa: PLC0415
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    outer = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    if model_type in causal and not (seeing and model_type in outer):
        return transformers.AutoModelForCausalLM
    return (
        transformers.AutoModelForImageTextToText if model_type in outer else transformers.AutoModel
    )


def trace(
    model_type: str, inputs: Mapping[str, Any], *, symbolic: bool = True, cache: bool = True,
    seconds: int = 60, seeing: bool = False,
) -> Trace:  # fmt: skip
    """Return the trace of a family's model at a configuration. Raises what its classes raise."""
    import torch  # noqa: PLC0415
    from transformers import initialization  # noqa: PLC0415

    config = config_class(model_type)(**json.loads(json.dumps(inputs)))
    made = Trace(dict(inputs), flat(config))
    if symbolic:
        make_symbolic(config)
    package = type(config).__module__.rpartition(".")[0]
    auto = model_class(model_type, seeing=seeing)
    auto._model_mapping.get(type(config), None)  # imports the module before its ``int`` is replaced
    with (
        at_most(seconds), recorded_shapes(package), torch.device("meta"),
        initialization.no_init_weights(),
    ):  # fmt: skip
        model = auto.from_config(config)
    model.tie_weights()
    text = config.get_text_config(decoder=True)
    made.text_prefixes = tuple(
        f"{name}." for name, module in model.named_modules()
        if text is not config and getattr(module, "config", None) is text and name
    )  # fmt: skip
    for name, weight in model.named_parameters():
        _add(made, name, shape_texts(weight), tuple(map(int, weight.shape)))
    made.cache_problem = "not asked for"
    if cache:
        made.cache_problem = ""
        try:
            with at_most(seconds):
                record_cache(made, model)
        except Exception as error:  # any of torch's or the model's own
            made.cache_problem = f"{type(error).__name__}: {str(error)[:120]}"
    return made


def _add(made: Trace, name: str, texts: Shape, sizes: tuple[int, ...]) -> None:
    indices = tuple(int(part) for part in name.split(".") if part.isdigit())
    template = re.sub(r"(?<=\.)\d+(?=\.|$)", "{}", name)
    made.shapes[template, indices] = texts
    made.sizes[template, indices] = sizes


def cache_layers(model: Any, tokens: int = TOKENS) -> list[Any]:
    """Return the layers of the cache that a forward pass over ``tokens`` tokens leaves."""
    import torch  # noqa: PLC0415
    from transformers import masking_utils  # noqa: PLC0415

    # Both look at the mask's values, which the meta device has not.
    masking_utils._ignore_causal_mask_sdpa = lambda *_, **__: False
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    model = model.to(torch.bfloat16)
    result: Any = None
    for passed_over in (
        r"Experts$|MLP$|Norm$", r"Experts$|Norm$", r"Experts$|MoE|Moe|MLP$|Norm$", None,
    ):  # fmt: skip
        try:
            with (
                torch.no_grad(),
                torch.device("meta"),
                _passing(model, passed_over),
                _no_products(),
            ):
                ids = torch.zeros((1, tokens), dtype=torch.long)
                result = model.eval()(input_ids=ids, use_cache=True)
            break
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            if passed_over is None:
                raise
    for name in ("past_key_values", "cache_params"):
        cache = getattr(result, name, None)
        if cache is not None:
            layers = getattr(cache, "self_attention_cache", cache)
            return list(layers.layers)
    raise LookupError("no cache")


@contextlib.contextmanager
def _no_products() -> Iterator[None]:
    """Let attention return a tensor of its result's shape: on the meta device the steps to it take
    most of the time."""
    from torch.nn import functional  # noqa: PLC0415

    before = functional.scaled_dot_product_attention

    def shaped(query: Any, _key: Any, value: Any, *_: Any, **__: Any) -> Any:
        return query.new_empty((*query.shape[:-1], value.shape[-1]))

    setattr(functional, "scaled_dot_product_attention", shaped)  # noqa: B010
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = before


@contextlib.contextmanager
def _passing(model: Any, names: str | None) -> Iterator[None]:
    """Let modules whose class has such a name return their input: which experts a token takes is
    not known on the meta device, and does not change the cache."""
    changed = []
    for module in model.modules():
        if names is not None and re.search(names, type(module).__name__):
            module.forward = lambda hidden, *_, **__: hidden
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)


def record_cache(made: Trace, model: Any) -> None:
    """Add the sizes of the cache's tensors, without batch and tokens, to a trace."""
    import torch  # noqa: PLC0415

    for index, layer in enumerate(cache_layers(model)):
        for name, tensors in vars(layer).items():
            if name == "sliding_window" and isinstance(tensors, int):
                _add(made, f"cache.{index}.window", (int(tensors),), (int(tensors),))
            listed = list(tensors.values()) if isinstance(tensors, dict) else tensors
            for n, tensor in enumerate(listed if isinstance(listed, list | tuple) else [tensors]):
                if not torch.is_tensor(tensor) or tensor.dim() < 2:
                    continue
                shape = tuple(int(size) for size in tensor.shape[1:])
                kind = "token" if TOKENS in shape else "state"
                rest = tuple(size for size in shape if size != TOKENS) or (1,)
                suffix = f"_{n}" if n else ""
                _add(made, f"cache.{index}.{kind}.{name}{suffix}", rest, rest)
