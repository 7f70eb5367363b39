"""Evaluate the expressions of the table of families: whole numbers of a configuration's keys.

The table is shipped data, but its expressions are still evaluated by this small interpreter and
not by Python's: nothing but arithmetic, comparisons and the keys of a configuration is reachable.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ceil": math.ceil, "int": int, "round": round, "min": min, "max": max, "len": len,
    "sum": sum, "before": lambda items, i: items[:i].count(items[i]),
}  # fmt: skip


class MissingKey(LookupError):
    """An expression needs a key that the configuration has not; ``args[0]`` is its name."""


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """Return the value of an expression over ``values``; a dotted name ``a.b`` is one key.

    Raises MissingKey for a key that is absent, and ArithmeticError, TypeError or LookupError where
    the values are of no use in the expression.
    """
    return _value(_parsed(text), values)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:  # noqa: PLR0911, PLR0912
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in values:
                raise MissingKey(name)
            return values[name]
        case ast.Attribute():
            name = ast.unparse(node)
            if name not in values:
                raise MissingKey(name)
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_present(left, values), _present(right, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BoolOp(op=op, values=parts):
            stop_at = isinstance(op, ast.Or)
            result: Any = None
            for part in parts:
                result = _value(part, values)
                if bool(result) is stop_at:
                    return result
            return result
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_value(left, values), _value(right, values))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, values) else orelse, values)
        case ast.Subscript(value=inner, slice=index):
            whole = _present(inner, values)
            # One number stands for the same number in every layer.
            return whole if isinstance(whole, int | float) else whole[_value(index, values)]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element, values) for element in elements]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(argument, values) for argument in arguments))
    raise TypeError(f"{ast.unparse(node)!r} is no expression of the table")


def _present(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of a node. Raises MissingKey where a configuration gives null for it."""
    value = _value(node, values)
    if value is None:
        raise MissingKey(ast.unparse(node))
    return value


def factors(text: str) -> list[str]:
    """Return the factors of a product, or the expression alone."""
    node = _parsed(text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [f for side in (node.left, node.right) for f in factors(ast.unparse(side))]
    return [ast.unparse(node)]


def names(text: str) -> set[str]:
    """Return the keys that an expression uses; a dotted name counts as one."""
    found: set[str] = set()
    inner: set[int] = set()
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
            inner.add(id(node.value))
        elif isinstance(node, ast.Name) and id(node) not in inner and node.id not in _FUNCTIONS:
            found.add(node.id)
    return found - {"i"}
