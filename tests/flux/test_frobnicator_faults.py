"""Whatever fails, inside or outside: the job goes on unchanged, in time, and stdout stays clean."""

from __future__ import annotations

import gc
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, move_to
from flux_bench import FluxBench, Jobspec, asking, flux_config, load_filter

from berth.plugin.flux.filter import FILTER_PATH

DEADLINE_S = 0.05


@pytest.fixture
def impatient(bench: FluxBench) -> FluxBench:
    bench.settings = {"deadline_ms": DEADLINE_S * 1000, "breaker_first_pause_s": 30}
    return bench


def bind(path: Path, backlog: int = 8) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(backlog)
    return listener


def unchanged(bench: FluxBench, times: int = 1) -> None:
    for _ in range(times):
        assert bench.frob(asking()) == asking()


# The daemon fails (what both filters must bear: tests/scheduler)


def test_an_answer_with_nan_is_not_json(impatient: FluxBench) -> None:
    raw = b'{"v":1,"action":"edit","edits":{"queue":"gpu"},"x":NaN}\n'
    with FakeDaemon(impatient.socket, lambda _: raw) as daemon:
        unchanged(impatient, 6)
    assert len(daemon.requests) == 3


class Clock:
    """The filter's ``time``, set forward by the test."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s

    def time(self) -> float:
        return time.time() + self.ahead_s


def test_one_probe_after_each_pause_and_recovery_closes_the_breaker(
    bench: FluxBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(bench.module, "time", clock)
    bench.settings = {"breaker_failures": 2, "breaker_first_pause_s": 20}
    answers: list[Any] = [b"no\n", b"no\n", b"no\n"]
    with FakeDaemon(bench.socket, lambda _: answers.pop() if answers else KEEP) as daemon:
        unchanged(bench, 4)
        assert len(daemon.requests) == 2
        for expected, pause_s in ((3, 20), (4, 40)):
            clock.ahead_s += pause_s / 2
            unchanged(bench)
            assert len(daemon.requests) == expected - 1
            clock.ahead_s += pause_s / 2
            unchanged(bench)
            assert len(daemon.requests) == expected
        unchanged(bench, 3)
        assert len(daemon.requests) == 7


def test_the_connection_is_kept_and_made_anew_when_the_daemon_restarts(bench: FluxBench) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        daemon.close_each = False
        for _ in range(5):
            assert bench.frob(asking()) != asking()
        assert daemon.connections == 1
        daemon.close_each = True
        bench.frob(asking())
    with FakeDaemon(bench.socket, lambda _: move_to("cpu")) as daemon:
        for _ in range(5):
            assert bench.frob(asking())["attributes"]["system"]["queue"] == "cpu"
        assert daemon.connections == 5


def test_a_job_too_large_to_ask_about_is_not_the_daemons_fault(bench: FluxBench) -> None:
    spec = asking("batch")
    # Each of these is six bytes in JSON.
    spec["attributes"]["system"]["files"]["script"]["data"] = "#!/bin/sh\n" + "\x01" * 60_000
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        for _ in range(5):
            assert bench.frob(spec) == spec
        assert bench.frob(asking()) != asking()
    assert len(daemon.requests) == 1


# Our own code fails


def _hang(_: Any) -> None:
    time.sleep(30)


def _busy(_: Any) -> None:
    while True:
        pass


def _stubborn(_: Any) -> None:
    while True:
        with suppress(Exception):
            time.sleep(30)


def _raise(_: Any) -> None:
    raise RuntimeError("broken")


def _exit(_: Any) -> None:
    sys.exit(3)


def _print(_: Any) -> None:
    print('{"errnum": 0, "data": {}}')


def _exhaust(_: Any) -> None:
    raise MemoryError


def _recurse(spec: Any) -> None:
    _recurse(spec)


def _deface_and_raise(spec: Any) -> None:
    spec["tasks"] = [{"command": ["rm", "-rf"]}]
    spec["attributes"]["system"].clear()
    raise KeyError("late")


FAULTS = (_hang, _busy, _stubborn, _raise, _exit, _print, _exhaust, _recurse, _deface_and_raise)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_filter_is_nobodys_but_ours(
    impatient: FluxBench, fault: Callable[[Any], None], capfd: pytest.CaptureFixture[str]
) -> None:
    impatient.settings["breaker_failures"] = 1000
    filter_ = impatient.plugin._filter
    filter_.consider = lambda spec, _userid: fault(spec)
    handler = signal.getsignal(signal.SIGALRM)
    stdout = sys.stdout
    unchanged(impatient, 3)
    assert capfd.readouterr().out == ""
    assert sys.stdout is stdout
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.fixture
def no_finalizers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests' garbage is not collected under an alarm: what rings there reaches nobody."""
    gc.collect()
    gc.disable()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    yield
    gc.enable()


@pytest.mark.usefixtures("no_finalizers")
@pytest.mark.slow
def test_an_alarm_that_rings_at_any_moment_leaves_everything_in_order(bench: FluxBench) -> None:
    """Deadlines from one microsecond on ring before, in and after every step."""
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        daemon.close_each = False
        plugin = bench.plugin
        moved = asking()
        moved["attributes"]["system"]["queue"] = "gpu"
        seen = set()
        for step in range(3000):
            plugin._filter.settings["deadline_ms"] = 0.001 * (1 + step)
            plugin._filter.breaker.succeeded()
            found = bench.frob(asking())
            assert found == asking() or found["attributes"]["system"]["queue"] == "gpu"
            assert found["tasks"] == moved["tasks"]
            seen.add(found == asking())
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert seen == {True, False}


def test_in_another_thread_the_sockets_deadline_still_holds(impatient: FluxBench) -> None:
    assert impatient.plugin is not None
    found: list[Any] = []
    with bind(impatient.socket):
        thread = threading.Thread(target=lambda: found.append(impatient.frob(asking())))
        thread.start()
        thread.join()
    assert found == [asking()]


@pytest.mark.parametrize("config", [None, 3, [], {}, {"ingest": 3}, {"queues": [1]}, "x"])
def test_any_configuration_is_survived(config: Any) -> None:
    module = load_filter()
    plugin = module.Frobnicator(parser=None)
    plugin.configure(None, config)
    jobspec = Jobspec(asking())
    plugin.frob(jobspec, 1000, 16, 0)
    assert jobspec.jobspec == asking()


@pytest.mark.parametrize(
    "settings",
    [
        {"deadline_ms": 0},
        {"deadline_ms": "50"},
        {"deadline_ms": True},
        {"deadline_ms": float("nan")},
        {"breaker_failures": -1},
        {"socket": 3},
        {"kill_switch": ""},
        {"socket": "a\0b"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_accepted_keeps_the_default(settings: dict[str, Any]) -> None:
    module = load_filter()
    assert module.settings_of(flux_config(**settings)) == module.DEFAULTS


def test_a_frobnicator_that_was_never_configured_does_nothing(bench: FluxBench) -> None:
    jobspec = Jobspec(asking())
    plugin = bench.module.Frobnicator(parser=None)
    for spec in (jobspec, Jobspec(None), object(), None):  # type: ignore[arg-type]
        plugin.frob(spec, 1000, 16, 0)
    assert jobspec.jobspec == asking()


def test_it_imports_nothing_heavy() -> None:
    code = (
        "import importlib.util, sys; import argparse, json, logging, os, typing;"
        "before = set(sys.modules);"
        f"spec = importlib.util.spec_from_file_location('f', {str(FILTER_PATH)!r});"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module);"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    modules = done.stdout.split()
    light = {"socket", "_socket", "select", "selectors", "array", "signal", "math", "errno"}
    assert set(modules) <= light
