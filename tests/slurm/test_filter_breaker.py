"""The Lua filter's breaker and its clock; what both filters must bear: tests/scheduler."""

from __future__ import annotations

from fake_daemon import FakeDaemon, move_to
from filter_bench import FilterBench

AUTO = {"partition": "auto"}


def test_one_probe_after_each_pause_and_the_pauses_grow(bench: FilterBench) -> None:
    bench.settings = {
        "breaker_failures": 2,
        "breaker_first_pause_s": 0.05,
        "breaker_longest_pause_s": 10,
    }
    with FakeDaemon(bench.socket, lambda _: b"no\n") as daemon:
        outcome = bench.submit(AUTO, submissions=80, pause_s=0.01)
    # 2 failures open it; probes follow after 50, 150, 350 and 750 ms of at least 800, on a busy
    # machine of more: after 1550, 3150, ... ms.
    assert 4 <= len(daemon.requests) <= 10
    assert outcome.codes == [0] * 80


def test_a_clock_set_back_neither_hangs_a_submission_nor_keeps_the_breaker_open(
    bench: FilterBench,
) -> None:
    bench.settings = {"breaker_failures": 1, "breaker_first_pause_s": 30}
    prelude = (
        "local s = require 'socket'; local real, calls = s.gettime, 0; "
        "s.gettime = function() calls = calls + 1; "
        "return calls > 15 and real() - 86400 or real() end"
    )
    replies = iter([b"no\n", *[move_to("gpu")] * 1000])
    with FakeDaemon(bench.socket, lambda _: next(replies)):
        outcome = bench.submit(AUTO, submissions=10, prelude=prelude)
    assert outcome.job["partition"] == "gpu"
    assert outcome.codes == [0] * 10
