"""Integers and floats that remember the expression they were computed by, and tensors built from
them.

A configuration whose numbers are ``Symbol`` builds an ordinary model; each weight's shape then
says how its sizes follow from the configuration's keys.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Self

_ATOM = re.compile(r"[\w.\[\]]+\Z")
_PRODUCT = re.compile(r"[\w.\[\] *]+\Z")


class _Expression:
    """A number with the expression that it was computed by."""

    text: str

    def __new__(cls, value: float, text: str) -> Self:
        number = super().__new__(cls, value)  # type: ignore[call-arg]
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[float, str]:
        return plain(self), self.text

    def __ceil__(self) -> Symbol:
        return _whole(self, math.ceil, "ceil")

    def __floor__(self) -> Symbol:
        return _whole(self, math.floor, "int")

    def __round__(self, digits: Any = None) -> Any:
        return _whole(self, round, "round") if digits is None else round(plain(self), digits)


class Symbol(_Expression, int):  # type: ignore[misc]
    """An integer with its expression."""

    def __neg__(self) -> Symbol:
        return Symbol(-plain(self), f"-{wrapped(self.text)}")


class SymbolFloat(_Expression, float):  # type: ignore[misc]
    """A float with its expression."""


def _whole(number: Any, rounded: Callable[[float], int], name: str) -> Symbol:
    if isinstance(number, Symbol):
        return number
    return Symbol(rounded(plain(number)), f"{name}({number.text})")


def wrapped(text: str) -> str:
    """Return an expression in parentheses, unless it is a name or number."""
    return text if _ATOM.match(text) else f"({text})"


def plain(value: Any) -> Any:
    """Return a number without its expression."""
    if isinstance(value, Symbol):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, SymbolFloat) else value


def text_of(value: Any) -> str:
    """Return the expression of a number, or the text of another value."""
    return value.text if isinstance(value, Symbol | SymbolFloat) else repr(value)


def as_symbol(value: Any, name: str) -> Any:
    """Return a number, or a list of integers, as symbols of a name; any other value as it is."""
    if type(value) is int:
        return Symbol(value, name)
    if type(value) is float:
        return SymbolFloat(value, name)
    if isinstance(value, list) and value and all(type(v) is int for v in value):
        return [Symbol(v, f"{name}[{n}]") for n, v in enumerate(value)]
    return value


def _operation(apply: Callable[[Any, Any], Any], sign: str, *, swapped: bool) -> Any:
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, bool) or not isinstance(other, int | float):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        value = apply(plain(left), plain(right))
        texts = text_of(left), text_of(right)
        if sign == "*" and all(_PRODUCT.match(text) for text in texts):
            text = " * ".join(texts)
        else:
            text = f"{wrapped(texts[0])} {sign} {wrapped(texts[1])}"
        if isinstance(value, float):
            return SymbolFloat(value, text)
        return Symbol(value, text) if isinstance(value, int) else value

    return method


for _name, _apply, _sign in (
    ("add", operator.add, "+"), ("sub", operator.sub, "-"), ("mul", operator.mul, "*"),
    ("floordiv", operator.floordiv, "//"), ("truediv", operator.truediv, "/"),
    ("mod", operator.mod, "%"), ("pow", operator.pow, "**"),
):  # fmt: skip
    setattr(_Expression, f"__{_name}__", _operation(_apply, _sign, swapped=False))
    setattr(_Expression, f"__r{_name}__", _operation(_apply, _sign, swapped=True))


class _IntLike(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, builtins.int)

    def __call__(cls, value: Any = 0, *rest: Any) -> Any:
        if isinstance(value, Symbol):
            return value
        if isinstance(value, SymbolFloat):
            return _whole(value, builtins.int, "int")
        return builtins.int(value, *rest)


class _Int(metaclass=_IntLike):
    """Stands for ``int`` in modules whose ``int(...)`` must not forget the expression."""


@contextlib.contextmanager
def recorded_shapes(package: str) -> Iterator[None]:
    """Within the context, tensors that torch creates remember the symbols of their shape
    (``shape_texts``), and ``int(...)`` in the modules of ``package`` keeps expressions."""
    import torch  # noqa: PLC0415 - seconds
    from torch.utils import _device  # noqa: PLC0415

    _device._device_constructors()  # lists torch's own functions before they are replaced
    makers = ("empty", "zeros", "ones", "rand", "randn", "full")
    originals = {name: getattr(torch, name) for name in makers}
    parameter_new = torch.nn.Parameter.__new__

    def recording(name: str) -> Any:
        original = originals[name]

        def make(*sizes: Any, **options: Any) -> Any:
            if options.get("device") is None:
                options["device"] = "meta"
            tensor = original(*sizes, **options)
            shape: Any = options.get("size", sizes)
            if name == "full":
                shape = sizes[0] if sizes else shape
            if len(shape) == 1 and isinstance(shape[0], list | tuple):
                shape = shape[0]
            if len(shape) == tensor.dim() and any(isinstance(s, Symbol) for s in shape):
                tensor.size_symbols = tuple(shape)
            return tensor

        return make

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        parameter = parameter_new(cls, data, requires_grad)
        if hasattr(data, "size_symbols"):
            parameter.size_symbols = data.size_symbols
        return parameter

    for name in makers:
        setattr(torch, name, recording(name))
    torch.nn.Parameter.__new__ = new
    try:
        with whole_numbers_kept(package):
            yield
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)
        torch.nn.Parameter.__new__ = parameter_new


@contextlib.contextmanager
def whole_numbers_kept(package: str) -> Iterator[None]:
    """Within the context, ``int(...)`` in the modules of ``package`` keeps expressions."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(package) and "int" not in vars(module)
    ]
    for module in modules:
        module.int = _Int  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in modules:
            del module.int


def shape_texts(tensor: Any) -> tuple[str | int, ...]:
    """Return each size of a tensor: its expression, or a plain integer where none was recorded."""
    symbols = getattr(tensor, "size_symbols", tuple(tensor.shape))
    return tuple(
        s.text if isinstance(s, Symbol) else int(size)
        for s, size in zip(symbols, tensor.shape, strict=True)
    )
