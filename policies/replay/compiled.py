"""Compile the replay's event loop with numba, from the functions that also run uncompiled.

Each function of ``kernel`` is copied, and its calls go to the compiled copies. Functions that the
settings never reach are replaced by empty ones, because compilation takes long (about 20 s, once).
numba is imported on first use only. Its compiled code is cached beside the source files, or in the
user's cache directory if that is not writable (``NUMBA_CACHE_DIR``).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from berth.pilot.errors import ToolMissing
from berth.policies.replay.kernel import loop
from berth.policies.replay.kernel.state import State
from berth.policies.replay.settings import Backfill

_KERNEL = "berth.policies.replay.kernel"
_MODULES = (
    "state", "queues", "claims", "jobs", "passes", "loop",
)  # fmt: skip
_PASSES = {Backfill.FCFS: "fcfs", Backfill.EASY: "easy"}
_OF_NODES = ("pass_nodes", "claim", "unclaim")

_IDLE: dict[int, Any] = {
    1: lambda _1: None,
    2: lambda _1, _2: None,
    3: lambda _1, _2, _3: None,
    4: lambda _1, _2, _3, _4: None,
    5: lambda _1, _2, _3, _4, _5: None,
}
"""Empty functions for those that the settings never reach, by number of arguments."""
Run = Callable[[State, int], None]


def has_numba() -> bool:
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def kernel(backfill: Backfill, *, pooled: bool, compiled: bool | None = None) -> Run:
    """Return ``loop.run``, compiled or not; ``compiled=None``: compiled where numba is installed.

    Raises ToolMissing if ``compiled`` is True and numba is missing.
    """
    if compiled is None:
        compiled = has_numba()
    if not compiled:
        return loop.run
    if not has_numba():
        raise ToolMissing(
            "numba", needed_for="a compiled replay", hint="pip install 'berth[replay]'"
        )
    left_out = set(_OF_NODES if pooled else ())
    left_out |= {name for mode, name in _PASSES.items() if not pooled or mode is not backfill}
    return _compiled(frozenset(left_out), allocates=not pooled)


@functools.cache
def _compiled(left_out: frozenset[str], *, allocates: bool) -> Run:
    numba = importlib.import_module("numba")
    modules = [importlib.import_module(f"{_KERNEL}.{name}") for name in _MODULES]
    text = "".join(inspect.getsource(module) for module in modules)
    # numba's cache checks only the age of the function's own file, not of those it calls into.
    names: dict[str, Any] = {}
    for module in modules:
        names.update(vars(module))
    version = hashlib.sha256(f"{text}{sorted(left_out)}{allocates}".encode()).hexdigest()[:12]
    for module in modules:
        for name, function in vars(module).items():
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                code: Any = function
                if name in left_out:
                    code = _IDLE[function.__code__.co_argcount]
                names[name] = _compile(numba, code, names, version, allocates=allocates)
    run: Run = names["run"]
    return run


def _compile(
    numba: Any, function: FunctionType, names: dict[str, Any], version: str, *, allocates: bool
) -> Any:
    """Return a compiled copy of the function, which looks up the functions it calls in ``names``.

    ``allocates``: whether some compiled function creates arrays (those for nodes do). If
    none does, numba's reference counting is switched off: it would take longer than the
    rest.
    """
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__qualname__ = f"{function.__name__}_{version}"
    copy.__module__ = function.__module__
    inner = function is not loop.run
    return numba.njit(
        cache=not inner, no_cpython_wrapper=inner, no_cfunc_wrapper=True, error_model="numpy",
        _nrt=allocates,
    )(copy)  # fmt: skip
