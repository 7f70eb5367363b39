"""Build one model of a family on torch's meta device and record what it holds.

A ``Trace`` has the values of the configuration (defaults filled in by its class), every weight
with its shape, and every tensor that a forward pass leaves in the cache.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from berth.predictor.families.language_model.transformers_child import (
    auto_class,
    cache_layers,
    sizes_per_token,
)
from lab.llm.architectures.symbols import (
    Symbol,
    SymbolFloat,
    as_symbol,
    plain,
    recorded_shapes,
    shape_texts,
)

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
        elif isinstance(value, Symbol | SymbolFloat):
            values[prefix + name] = plain(value)
        elif value is None or isinstance(value, bool | int | float | str | list | tuple):
            values[prefix + name] = list(value) if isinstance(value, tuple) else value
    for name, by_layer in values_by_layer(config).items():
        values[prefix + name] = [plain(value) for value in by_layer]
    return values


def values_by_layer(config: Any) -> dict[str, list[Any]]:
    """Return the values of the keys that differ between layers (``per_layer_config``)."""
    spec = vars(config).get("_heterogeneity_spec")
    return {} if spec is None else {
        name: [
            spec.per_layer_overrides.get(i, {}).get(name, vars(config)[name])
            for i in range(config.num_hidden_layers)
        ]
        for name in spec.explicit_per_layer_attributes
    }  # fmt: skip


def make_symbolic(config: Any, prefix: str = "") -> None:
    """Replace each number of a configuration by a symbol that has the key's name."""
    for name, by_layer in values_by_layer(config).items():
        for i, value in enumerate(by_layer):
            overrides = vars(config)["_heterogeneity_spec"].per_layer_overrides.setdefault(i, {})
            overrides[name] = as_symbol(plain(value), f"{prefix}{name}[{i}]")
    for name, value in list(vars(config).items()):
        if name.startswith("_") or name.endswith("token_id"):
            continue
        if hasattr(value, "attribute_map"):
            make_symbolic(value, f"{prefix}{name}.")
            continue
        symbol = as_symbol(value, prefix + name)
        if symbol is not value:
            with contextlib.suppress(Exception):
                setattr(config, name, symbol)


class TookTooLong(Exception):
    """A forward pass was stopped."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TookTooLong in the body after so many seconds of the processor's time."""

    def stop(*_: Any) -> None:
        raise TookTooLong(f"over {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def trace(
    model_type: str, inputs: Mapping[str, Any], *, symbolic: Sequence[str] = (),
    cache: bool = True, seconds: int = 60, seeing: bool = False,
) -> Trace:  # fmt: skip
    """Return the trace of a family's model at a configuration. Raises what its classes raise.

    Numbers of the configuration become symbols once its class has filled it in; those of the keys
    ``symbolic``, which the class takes and does not keep, before.
    """
    import torch  # noqa: PLC0415
    from transformers import initialization  # noqa: PLC0415

    copied = json.loads(json.dumps(inputs))
    config = config_class(model_type)(**{
        k: Symbol(v, k) if k in symbolic and type(v) is int else v for k, v in copied.items()
    })  # fmt: skip
    traced = Trace(dict(inputs), flat(config))
    make_symbolic(config)
    package = type(config).__module__.rpartition(".")[0]
    build = builder(config, seeing=seeing)  # imports the module before its ``int`` is replaced
    with (
        at_most(seconds), recorded_shapes(package), torch.device("meta"),
        initialization.no_init_weights(),
    ):  # fmt: skip
        model = build(config)
    model.tie_weights()
    text = config.get_text_config(decoder=True)
    traced.text_prefixes = tuple(
        f"{name}." for name, module in model.named_modules()
        if text is not config and getattr(module, "config", None) is text and name
    )  # fmt: skip
    for name, weight in model.named_parameters():
        _add(traced, name, shape_texts(weight), tuple(map(int, weight.shape)))
    traced.cache_problem = "not asked for"
    if cache:
        traced.cache_problem = ""
        try:
            with at_most(seconds):
                record_cache(traced, model)
        except Exception as error:  # any of torch's or the model's own
            traced.cache_problem = f"{type(error).__name__}: {str(error)[:120]}"
    return traced


def builder(config: Any, *, seeing: bool = False) -> Callable[[Any], Any]:
    """Return what builds the model of a configuration: the auto class of its type, else the model
    that a module has of a text part which transformers holds only inside others."""
    import transformers  # noqa: PLC0415

    auto = transformers.AutoModel
    with contextlib.suppress(LookupError):
        auto = auto_class(config.model_type, seeing=seeing)
    if auto._model_mapping.get(type(config), None) is not None:
        return auto.from_config  # type: ignore[no-any-return]
    module = importlib.import_module(
        type(config).__module__.replace(".configuration_", ".modeling_")
    )
    return next(  # type: ignore[no-any-return]
        cls._from_config for name, cls in vars(module).items()
        if name.endswith("TextModel") and getattr(cls, "config_class", None) is type(config)
    )  # fmt: skip


def _add(traced: Trace, name: str, texts: Shape, sizes: tuple[int, ...]) -> None:
    indices = tuple(int(part) for part in name.split(".") if part.isdigit())
    template = re.sub(r"(?<=\.)\d+(?=\.|$)", "{}", name)
    if indices:  # a size by layer is the same expression in every layer
        texts = tuple(
            text.replace(f"[{indices[0]}]", "[i]") if isinstance(text, str) else text
            for text in texts
        )
    traced.shapes[template, indices] = texts
    traced.sizes[template, indices] = sizes


def record_cache(traced: Trace, model: Any) -> None:
    """Add the sizes of the cache's tensors, without batch and tokens, to a trace."""
    import torch  # noqa: PLC0415

    for index, layer in enumerate(cache_layers(model)):
        for name, tensors in vars(layer).items():
            if name == "sliding_window" and isinstance(tensors, int):
                _add(traced, f"cache.{index}.window", (int(tensors),), (int(tensors),))
            listed = list(tensors.values()) if isinstance(tensors, dict) else tensors
            for n, tensor in enumerate(listed if isinstance(listed, list | tuple) else [tensors]):
                if not torch.is_tensor(tensor) or tensor.dim() < 2:
                    continue
                sizes = sizes_per_token(name, tensor)
                kind = "state" if sizes is None else "token"
                rest = tuple(map(int, tensor.shape[1:])) if sizes is None else sizes or (1,)
                suffix = f"_{n}" if n else ""
                _add(traced, f"cache.{index}.{kind}.{name}{suffix}", rest, rest)


def prefix_of(template: str) -> str:
    return template.partition("{}")[0]


def counts(traces: Sequence[Trace]) -> dict[str, list[int]]:
    """Return the number of first indices under each prefix, by trace."""
    most: dict[str, list[int]] = defaultdict(lambda: [0] * len(traces))
    for t, traced in enumerate(traces):
        for template, indices in traced.shapes:
            if indices:
                prefix = prefix_of(template)
                most[prefix][t] = max(most[prefix][t], indices[0] + 1)
    return most
