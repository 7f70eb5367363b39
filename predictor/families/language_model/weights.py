"""Read from a configuration how many bits each weight is stored in, and in how many bits the
matrix products run.

Each method of quantisation writes its own keys (``_METHODS``). A method or a format that is not
listed is refused: a wrong number of bits is a wrong memory. Formats that quantise only the weights
compute at the precision of the activations.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError

_TABLE = json.loads(Path(__file__).with_name("weight_formats.json").read_text(encoding="utf-8"))
"""Bits by name: ``dtypes`` of checkpoints that are not quantised, ``tensors`` of Quark and Quanto;
stored bits and bits of the products (null: the activations') by ``quant_algo`` of NVIDIA's Model
Optimizer (``modelopt``), by the beginning of torchao's type (``torchao``) and by ``expert_dtype``
(``experts``); bits of the products by method, instruction set and server (``products``: MXFP4 has
8-bit activations on Blackwell where the server quantises them, and is weights alone elsewhere),
and the instruction sets with matrix units of 4 bits (``units``)."""
_EXCEPTIONS = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude", "exclude_modules",
               "llm_int8_skip_modules", "modules_to_not_quantize", "ignored_modules")  # fmt: skip
_SCALE_BITS = 16.0


@dataclass(frozen=True, slots=True)
class Format:
    """Bits of a weight, and of the operands of its matrix product."""

    bits: float
    """Stored bits per weight with its share of scales and zero points."""
    compute_bits: float | None = None
    """None: the weights alone are quantised, products run at the activations' precision."""


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """The formats of a checkpoint's weights."""

    plain_bits: float
    """Bits of weights that are not quantised."""
    method: str = ""
    """Name of the method of quantisation; empty: none."""
    rules: tuple[tuple[str, Format | None], ...] = ()
    """Patterns of module names with their format (None: not quantised), the first that matches
    counts; ``Linear`` matches every matrix of a layer."""
    end_bits: float = 16.0
    """Bits of embeddings and output matrix."""
    _known: dict[str, Format | None] = field(default_factory=dict, compare=False)

    def of(self, module: str) -> Format | None:
        """Return the format of a module's weights, such as ``model.layers.3.self_attn.q_proj``;
        None: they are not quantised."""
        name = short_name(module)
        if name not in self._known:
            self._known[name] = next(
                (form for pattern, form in self.rules if matches(pattern, name)), None
            )
        return self._known[name]


def short_name(module: str) -> str:
    """Return a module's name from its layer on, without the number of an expert: checkpoints of
    one family differ in what is before."""
    name = re.sub(r"^.*?(?:layers|blocks|h)\.(?=\d)", "layers.", module)
    name = re.sub(r"\.experts\.\d+\.", ".experts.", name)
    return name.removesuffix(".weight")


def matches(pattern: str, name: str) -> bool:  # noqa: PLR0911 - a case for each form
    """Return whether a pattern of a quantisation file names a module or one that it is part of.

    Patterns are names (``lm_head``, ``model.layers.0.mlp``), globs, or ``re:`` and a regular
    expression.
    """
    if pattern in {"Linear", "*", "re:.*"}:
        return name.startswith("layers.")
    if pattern.startswith("re:"):
        expression = _compiled(pattern[3:])
        if expression is None:
            return False
        forms = (name, f"model.{name}", f"model.language_model.{name}", f"{name}.0.gate_proj")
        return any(expression.match(form) for form in forms)
    short = short_name(pattern)
    if "*" in short:
        globbed = re.sub(r"^.*?layers\.\*", "layers.*", short)
        return fnmatch.fnmatchcase(name, globbed) or fnmatch.fnmatchcase(name, f"{globbed}.*")
    if name == short or name.startswith(f"{short}."):
        return True
    if ".experts" in short and short.startswith(f"{name.rpartition('.')[0]}."):
        return name.rpartition(".")[0].endswith(".experts")
    return f".{short}." in f".{name}." if "layers." not in short else False


@cache
def _compiled(pattern: str) -> Any:
    """Return a file's regular expression, which cannot take long to match; None: it is none."""
    import re2  # noqa: PLC0415 - few files need it

    try:
        return re2.compile(pattern)
    except re2.error:
        return None


def formats(raw: Mapping[str, Any], inner: Mapping[str, Any], source: Path | str) -> WeightFormats:
    """Return the formats of the weights of a configuration; ``inner``: its text model's part.

    Raises DocumentError for a method or format that is not known.
    """
    dtype = (
        inner.get("dtype") or inner.get("torch_dtype") or raw.get("dtype") or raw.get("torch_dtype")
    )
    name = str(dtype or "auto").removeprefix("torch.")
    if name not in _TABLE["dtypes"]:
        raise DocumentError(
            source, f"is {name[:40]!r}, no type of weights that is known", key="dtype"
        )
    plain = float(_TABLE["dtypes"][name])
    quantised = raw.get("quantization_config") or inner.get("quantization_config")
    if quantised is None:
        quantised = raw.get("compression_config") or inner.get("compression_config")
    of_mlx = raw.get("quantization")
    if isinstance(of_mlx, dict) and of_mlx:  # MLX writes quantization_config, too, equal
        if "group_size" not in of_mlx:
            raise DocumentError(source, "is not in MLX's form: no group_size", key="quantization")
        reading = _Quantised(of_mlx, source, "mlx")
        return WeightFormats(plain, "mlx", end_bits=_mlx(reading).bits, rules=_mlx_rules(reading))
    experts = _expert_rules(raw, inner, source)
    if not quantised:
        return WeightFormats(plain, rules=experts)
    if not isinstance(quantised, dict):
        raise DocumentError(source, "must be an object", key="quantization_config")
    method = str(quantised.get("quant_method") or _guessed_method(quantised)).lower()
    reader = _METHODS.get(method)
    if reader is None:
        raise DocumentError(
            source,
            f"is by {method[:40]!r}, a method of quantisation whose bits Berth does not know",
            key="quantization_config",
            hint="remove the key and give the bits: --quantise weights=int4",
        )
    rules = reader(_Quantised(quantised, source, method))
    if plain < 16:
        plain = 16.0
    exceptions = [
        (name, None) for key in _EXCEPTIONS for name in _names(quantised.get(key), source, key)
    ]
    return WeightFormats(plain, method, (*exceptions, *experts, *rules))


def _names(value: Any, source: Path | str, key: str) -> list[str]:
    if value is None or value is False:
        return []
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DocumentError(source, "must be a list of modules", key=f"quantization_config.{key}")
    return value


def _guessed_method(quantised: Mapping[str, Any]) -> str:
    if quantised.get("load_in_4bit") or quantised.get("load_in_8bit"):
        return "bitsandbytes"
    if "config_groups" in quantised:
        return "compressed-tensors"
    if "quant_algo" in quantised:
        return "modelopt"
    return "gptq" if "bits" in quantised else "no name"


def product_bits(method: str, operand_bits: float, isa: str, server: str) -> float:
    """Return the bits in which matrix products run: what a method of quantisation gives on an
    instruction set with a server (table ``products``, the first row that fits), else the operands'
    own, which are 16 where the accelerator has no units for as few (``units``)."""
    for row in _TABLE["products"]:
        if row["method"] == method and all(
            not row[key] or value in row[key] for key, value in (("isa", isa), ("servers", server))
        ):
            return float(row["bits"])
    has_units = isa in _TABLE["units"]["4"]
    return operand_bits if operand_bits > 4 or has_units or not isa else 16.0


def _expert_rules(
    raw: Mapping[str, Any], inner: Mapping[str, Any], source: Path | str
) -> tuple[tuple[str, Format | None], ...]:
    """Return the format of the routed experts where a configuration names it on its own
    (``expert_dtype`` of DeepSeek V4). Raises DocumentError for one that is not known."""
    name = inner.get("expert_dtype", raw.get("expert_dtype"))
    if name is None:
        return ()
    if str(name) not in _TABLE["experts"]:
        raise DocumentError(
            source, f"is {str(name)[:40]!r}, not known to Berth", key="expert_dtype"
        )
    return ((r"re:.*\.experts(\.|$)", Format(*_TABLE["experts"][str(name)])),)


Rules = Iterable[tuple[str, Format | None]]


@dataclass(frozen=True, slots=True)
class _Quantised:
    """A quantisation object that is being read, with what errors need."""

    values: Mapping[str, Any]
    source: Path | str
    method: str

    def bits(self, *keys: str, default: float | None = None) -> float:
        for key in keys:
            value = self.values.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 16:
                return float(value)
            if value is not None:
                raise self.refused(key, f"is {str(value)[:40]!r}, not from 1 to 16 bits")
        if default is None:
            raise self.refused(keys[0], "is missing")
        return default

    def known(self, table: str, key: str, name: str) -> Any:
        if name not in _TABLE[table]:
            raise self.refused(key, f"is {name[:40]!r}, not known to Berth")
        return _TABLE[table][name]

    def refused(self, key: str, problem: str) -> DocumentError:
        return DocumentError(self.source, problem, key=f"quantization_config.{key}")


def _overhead(group: Any, bits: float = _SCALE_BITS) -> float:
    """Return the bits of scales per weight in groups of so many weights."""
    return bits / group if isinstance(group, int) and group > 0 else 0.0


def _grouped(reading: _Quantised) -> Rules:
    """Weights alone, with a scale and zero point for each group: GPTQ, AWQ, AutoRound.

    Modules of other bits are in ``extra_config`` (AutoRound) or, by regular expression, with ``-:``
    before those that are not quantised, in ``dynamic`` (GPTQModel).
    """
    rules: list[tuple[str, Format | None]] = []
    usual = reading.values.get("bits")
    for key, mark in (("extra_config", ""), ("dynamic", "re:")):
        own = reading.values.get(key)
        for name, values in own.items() if isinstance(own, dict) else ():
            bits = values.get("bits", usual) if isinstance(values, dict) else usual
            plain = name.startswith("-:") or bits == 16
            inner = _Quantised({**reading.values, "bits": bits}, reading.source, reading.method)
            pattern = name.removeprefix("-:").removeprefix("+:")
            rules.append((mark + pattern, None if plain else _group_format(inner)))
    return [*rules, ("Linear", _group_format(reading))]


def _group_format(reading: _Quantised) -> Format:
    bits = reading.bits("bits", "w_bit", "nbits", "weight_bits")
    group = reading.values.get("group_size", reading.values.get("q_group_size", 128))
    return Format(bits + _overhead(group, _SCALE_BITS + bits))


def _bitsandbytes(reading: _Quantised) -> Rules:
    if reading.values.get("load_in_4bit"):
        double = reading.values.get("bnb_4bit_use_double_quant")
        return [("Linear", Format(4 + (0.127 if double else 0.5)))]
    if reading.values.get("load_in_8bit"):
        return [("Linear", Format(8.0, 8.0))]
    return []


def _fp8(_: _Quantised) -> Rules:
    return [("Linear", Format(8.0, 8.0))]


def _mxfp4(_: _Quantised) -> Rules:
    return [("re:.*experts.*", Format(4.25))]


def _mlx(reading: _Quantised) -> Format:
    """Return MLX's format: groups of weights with a scale and a bias of 16 bits, or a block format
    (``mode``)."""
    mode = str(reading.values.get("mode", "affine"))
    if mode in _TABLE["tensors"]:
        return Format(_TABLE["tensors"][mode])
    bits = reading.bits("bits")
    return Format(bits + _overhead(reading.values.get("group_size"), 2 * _SCALE_BITS))


def _mlx_rules(reading: _Quantised) -> tuple[tuple[str, Format | None], ...]:
    """Return MLX's formats by module: an object of its own, or ``false`` for none."""
    own = [
        (name, _mlx(_Quantised({**reading.values, **value}, reading.source, "mlx"))
         if isinstance(value, dict) else None)
        for name, value in reading.values.items()
        if isinstance(value, dict) or value is False
    ]  # fmt: skip
    return (*own, ("Linear", _mlx(reading)))


def _hqq(reading: _Quantised) -> Rules:
    inner = reading.values.get("quant_config")
    if isinstance(inner, dict) and not isinstance(inner.get("weight_quant_params"), dict):
        return [
            (pattern, _hqq_format(reading, one)) for pattern, one in inner.items()
            if isinstance(one, dict)
        ]  # fmt: skip
    return [("Linear", _hqq_format(reading, inner if isinstance(inner, dict) else reading.values))]


def _hqq_format(reading: _Quantised, values: Mapping[str, Any]) -> Format:
    parameters = values.get("weight_quant_params", values)
    inner = _Quantised(parameters if isinstance(parameters, dict) else {}, reading.source, "hqq")
    bits = inner.bits("nbits", "bits")
    return Format(bits + _overhead(inner.values.get("group_size", 64), 2 * _SCALE_BITS))


def _compressed_tensors(reading: _Quantised) -> Rules:
    groups = reading.values.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise reading.refused("config_groups", "is missing")
    rules: list[tuple[str, Format | None]] = []
    for name, group in groups.items():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            continue
        key = f"config_groups.{str(name)[:40]}.weights.num_bits"
        bits = _Quantised({key: weights.get("num_bits")}, reading.source, reading.method).bits(key)
        inputs = group.get("input_activations")
        compute = None
        if isinstance(inputs, dict):
            seen = inputs.get("num_bits")
            compute = float(seen) if isinstance(seen, int) and 4 <= seen < 16 else None
        small = bits == 4 and weights.get("type") == "float"
        form = Format(bits + _overhead(weights.get("group_size"), 8 if small else 16), compute)
        targets = _names(group.get("targets", ["Linear"]), reading.source, "config_groups")
        rules += [(target, form) for target in targets]
    if not rules:
        raise reading.refused("config_groups", "has no group with weights")
    # A named target counts before the class of all.
    return sorted(rules, key=lambda rule: rule[0] == "Linear")


def _modelopt(reading: _Quantised) -> Rules:
    inner = reading.values.get("quantization")
    values = inner if isinstance(inner, dict) else reading.values
    algorithm = values.get("quant_algo")
    layers = values.get("quantized_layers")
    if isinstance(layers, dict) and layers:
        return [
            (name, _algorithm(reading, one.get("quant_algo") if isinstance(one, dict) else one))
            for name, one in layers.items()
        ]
    if algorithm is None and "config_groups" in values:
        return _compressed_tensors(reading)
    excepted: list[tuple[str, Format | None]] = []
    if values is not reading.values:
        excepted = [
            (n, None) for key in _EXCEPTIONS for n in _names(values.get(key), reading.source, key)
        ]
    return [*excepted, ("Linear", _algorithm(reading, algorithm))]


def _algorithm(reading: _Quantised, name: Any) -> Format:
    return Format(*reading.known("modelopt", "quant_algo", str(name).upper()))


def _quark(reading: _Quantised) -> Rules:
    every = reading.values.get("global_quant_config")
    if not isinstance(every, dict):
        raise reading.refused("global_quant_config", "is missing")
    own = reading.values.get("layer_quant_config")
    rules = [
        (pattern, _quark_format(reading, one))
        for pattern, one in (own.items() if isinstance(own, dict) else ())
        if isinstance(one, dict)
    ]
    return [*rules, ("Linear", _quark_format(reading, every))]


def _quark_format(reading: _Quantised, values: Mapping[str, Any]) -> Format | None:
    weight, inputs = values.get("weight"), values.get("input_tensors")
    weight = weight[0] if isinstance(weight, list) and weight else weight
    inputs = inputs[0] if isinstance(inputs, list) and inputs else inputs
    if weight is None:
        return None
    dtype = str(weight.get("dtype")).lower() if isinstance(weight, dict) else ""
    stored = reading.known("tensors", "global_quant_config.weight.dtype", dtype)
    compute = None
    if isinstance(inputs, dict):
        bits = _TABLE["tensors"].get(str(inputs.get("dtype")).lower(), 16.0)
        compute = float(int(bits)) if bits < 16 else None
    return Format(stored, compute)


def _torchao(reading: _Quantised) -> Rules:
    kinds = reading.values.get("quant_type")
    if isinstance(kinds, dict) and "_type" not in kinds:
        kinds = kinds.get("default", kinds)
    named = str(kinds.get("_type") if isinstance(kinds, dict) else kinds)
    plain = re.sub(r"[^a-z0-9]", "", named.lower()).removesuffix("config")
    kind = next((name for name in _TABLE["torchao"] if plain.startswith(name)), named)
    return [("Linear", Format(*reading.known("torchao", "quant_type", kind)))]


def _quanto(reading: _Quantised) -> Rules:
    named = str(reading.values.get("weights")).lower()
    return [("Linear", Format(reading.known("tensors", "weights", named)))]


def _fixed(form: Format) -> Callable[[_Quantised], Rules]:
    return lambda _: [("Linear", form)]


_METHODS: Mapping[str, Callable[[_Quantised], Rules]] = {
    "gptq": _grouped, "gptqmodel": _grouped, "gptq_marlin": _grouped, "awq": _grouped,
    "awq_marlin": _grouped, "auto-round": _grouped, "auto_round": _grouped,
    "intel/auto-round": _grouped, "autoround": _grouped, "marlin": _grouped, "exl2": _grouped,
    "exl3": _grouped, "bitsandbytes": _bitsandbytes, "bitsandbytes_4bit": _bitsandbytes,
    "bitsandbytes_8bit": _bitsandbytes, "fp8": _fp8, "fbgemm_fp8": _fp8, "deepspeedfp": _fp8,
    "finegrained_fp8": _fp8, "mxfp4": _mxfp4, "gpt_oss_mxfp4": _mxfp4, "hqq": _hqq,
    "compressed-tensors": _compressed_tensors, "compressed_tensors": _compressed_tensors,
    "modelopt": _modelopt, "modelopt_fp4": _modelopt, "modelopt_mixed": _modelopt,
    "nvfp4": _fixed(Format(4.5, 4)), "quark": _quark, "torchao": _torchao, "quanto": _quanto,
    "eetq": _fixed(Format(8)), "bitnet": _fixed(Format(2)), "w8a8_int8": _fixed(Format(8, 8)),
    "w8a8_fp8": _fixed(Format(8, 8)), "experts_int8": lambda _: [("re:.*experts.*", Format(8))],
}  # fmt: skip
