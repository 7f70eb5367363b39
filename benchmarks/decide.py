"""A decision over 20 candidates: microseconds in pure Python, and decisions per second.

Bar: at most 150 us p50. The first line is what the daemon mostly sees; the next are where the
Decider remembers less and less of it. The last are jobs of unknown programs, placed by fit and in
the order of the ratios between kinds of hardware; bar: at most 1 ms p50.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from berth.policies.codes import Ground
from berth.policies.decide import Decider
from berth.policies.settings import FitSettings, PolicySettings
from berth.policies.values import Candidate, CandidateState, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.sizes import SizeGrowth

CANDIDATES = 20
MANY_CANDIDATES = 100
BAR_US = 150.0
BAR_UNKNOWN_US = 1_000.0
GIB = 2**30


def candidates(count: int = CANDIDATES) -> list[Candidate]:
    """Half CPU partitions, half GPU."""
    found = []
    for i in range(count):
        gpu = i % 2
        found.append(
            Candidate(
                name=f"place{i:02d}",
                platform=f"platform{i:02d}",
                queue=f"queue{i % 5}",
                gres="gpu:h100" if gpu else None,
                cores_per_node=64,
                memory_bytes_per_node=256 * GIB,
                gpus_per_node=4 if gpu else 0,
                gpu_memory_bytes=80 * GIB if gpu else None,
                nodes=16,
                max_time_s=86400.0,
                price_per_core_hour=0.02 + i / 1000,
                targets=("cuda",) if gpu else ("cpu",),
                instruction_sets=("avx", "avx2", "fma"),
            )
        )
    return found


def forecast(digest: str) -> Forecast:
    """Curves of realistic length on every platform."""
    curves = {}
    for i in range(CANDIDATES):
        grid = (1, 2, 4, 8) if i % 2 else (1, 2, 4, 8, 16, 32, 64)
        points = tuple(
            Prediction(
                workload="p",
                platform=f"platform{i:02d}",
                cores=0 if i % 2 else n,
                gpus=n if i % 2 else 0,
                basis=Basis.CALIBRATED,
                speedup=Interval(n / 2, float(n), n * 2.0),
                runtime_s=Interval(50 / n, 100 / n, 200 / n),
                memory=MemoryUse(
                    Interval(1e9, 2e9, 3e9), Interval(1e9, 2e9, 3e9) if i % 2 else None
                ),
                energy_j=None,
                bound=Bound.MEMORY,
            )
            for n in grid
        )
        curves[f"platform{i:02d}"] = PredictionCurve(points)
    return Forecast(
        workload="p",
        kind="program",
        digest=digest,
        bundle="sha256:bundle",
        targets=("cpu", "cuda"),
        architecture="x86_64",
        instruction_sets=("avx2",),
        threads=1,
        ranks=1,
        gpus=0,
        container=None,
        reference_platform="platform00",
        reference_runtime_s=100.0,
        sizes=SizeGrowth(1000.0, 2e9),
        curves=curves,
    )


def of_unknown_programs(count: int) -> Forecast:
    """What Berth predicts for unknown programs: a wide time, and narrow ratios between places."""
    curves = {}
    for i in range(0, count, 2):
        time_s = 3600.0 * (1 + i / count)
        point = Prediction(
            workload="u",
            platform=f"platform{i:02d}",
            cores=1,
            gpus=0,
            basis=Basis.LEARNED if i else Basis.MEASURED,
            speedup=Interval(1.0, 1.0, 1.0),
            runtime_s=Interval(time_s / 100, time_s, time_s * 20),
            memory=MemoryUse(),
            energy_j=None,
            bound=Bound.UNKNOWN,
            abstained="its program is not known",
            own_log_width=0.3,
        )
        curves[point.platform] = PredictionCurve((point,))
    return replace(forecast("sha256:unknown"), kind="history", targets=("cpu",), curves=curves)


def measure(call: Callable[[int], object], repeats: int) -> list[float]:
    found = []
    for i in range(repeats):
        start = time.perf_counter_ns()
        call(i)
        found.append((time.perf_counter_ns() - start) / 1000)
    return found


def bytecodes(call: Callable[[int], object], repeats: int = 50) -> float:
    """Steps of the interpreter a call: the same on a busy machine and an idle one."""
    steps = 0

    def count(frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return count

    sys.settrace(count)
    try:
        for i in range(repeats):
            call(10_000 + i)
    finally:
        sys.settrace(None)
    return steps / repeats


TraceFunction = Callable[[FrameType, str, object], "TraceFunction"]


def main() -> None:
    places = candidates()
    now = 1_000_000.0
    states = {c.name: CandidateState(True, 512, 32, 3, now - 5, 16) for c in places}
    decider = Decider(places, PolicySettings())
    base = Request(
        user="ada",
        account="physics",
        resources=Resources(nodes=1, tasks=24, cpus_per_task=1),
        time_limit_s=7200.0,
        allowed_queues=frozenset(f"queue{i}" for i in range(5)),
    )
    asked = forecast("sha256:one")
    assert decider.decide(base, states, asked, now).chosen is not None

    def shape(i: int) -> object:
        request = replace(base, time_limit_s=7200.0 + i, resources=Resources(1, 1 + i % 64, 1))
        return decider.decide(request, states, asked, now)

    def size(i: int) -> object:
        return decider.decide(replace(base, size=1000.0 + i / 7), states, asked, now)

    def seen(i: int) -> object:
        return decider.decide(replace(base, user=f"user{i}"), states, asked, now)

    calls = {
        "same program and shape, another user": (seen, 5_000, BAR_US),
        "same program, a shape never seen": (shape, 3_000, BAR_US),
        "same program, a problem size never seen": (size, 3_000, BAR_US),
        "unknown program, by fit": (unknown(CANDIDATES, by_ratio=False), 1_000, BAR_UNKNOWN_US),
        "unknown program, by ratios": (unknown(CANDIDATES, by_ratio=True), 1_000, BAR_UNKNOWN_US),
        f"unknown program, by ratios, {MANY_CANDIDATES} candidates": (
            unknown(MANY_CANDIDATES, by_ratio=True), 300, BAR_UNKNOWN_US,
        ),
    }  # fmt: skip
    print(f"Decision over {CANDIDATES} candidates; bars: p50 in us")
    print("| request | p50 us | bar | p99 us | per second | bytecodes |")
    print("|---|---|---|---|---|---|")
    for name, (call, repeats, bar_us) in calls.items():
        times = measure(call, repeats)
        ordered = sorted(times)
        p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
        verdict = "met" if p50 <= bar_us else "missed"
        print(
            f"| {name} | {p50:.0f} | {bar_us:.0f}: {verdict} | {p99:.0f} "
            f"| {1e6 / statistics.fmean(times):.0f} | {bytecodes(call):.0f} |"
        )


def unknown(count: int, *, by_ratio: bool) -> Callable[[int], object]:
    """A submission to ``auto`` of a program that nobody ran, each time by another user."""
    places, now = candidates(count), 1_000_000.0
    states = {c.name: CandidateState(True, 512, 32, 3, now - 5, 16) for c in places}
    decider = Decider(places, PolicySettings(list_queues=True, fit=FitSettings()))
    request = Request(
        user="ada",
        account="physics",
        resources=Resources(nodes=1, tasks=24, cpus_per_task=1),
        time_limit_s=7200.0,
        allowed_queues=frozenset(f"queue{i}" for i in range(5)),
        wants_placement=True,
    )
    predicted = of_unknown_programs(count) if by_ratio else None

    def call(i: int) -> object:
        return decider.decide(replace(request, user=f"user{i}"), states, predicted, now)

    decision = decider.decide(request, states, predicted, now)
    assert decision.chosen is not None
    assert (decision.ground is Ground.POPULATION) is by_ratio, decision.ground
    return call


if __name__ == "__main__":
    main()
