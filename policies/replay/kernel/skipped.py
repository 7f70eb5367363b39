"""Stand for functions that a replay's settings never reach, by how many arguments they take."""

# ruff: noqa: ARG001

from __future__ import annotations

from typing import Any


def _of_1(a: Any) -> None:
    return None


def _of_2(a: Any, b: Any) -> None:
    return None


def _of_3(a: Any, b: Any, c: Any) -> None:
    return None


def _of_4(a: Any, b: Any, c: Any, d: Any) -> None:
    return None


def _of_5(a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    return None


BY_ARGUMENTS = {
    function.__code__.co_argcount: function for function in (_of_1, _of_2, _of_3, _of_4, _of_5)
}
