"""Predicting one profile on all platforms, after load. Bar: 1 ms.

Uses the shipped bundle and the first committed kernel profile.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from timing.calls import times_s

from berth.pilot.campaign import read_profiles
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.kernels.examples import PROFILES

RUNS = 500
BAR_MS = 1.0


def median_ms(work: Callable[[], object]) -> float:
    """Median wall time of ``work`` in milliseconds, after a warm-up."""
    return 1e3 * statistics.median(times_s(work, RUNS))


def main() -> None:
    """Print the table."""
    start = time.perf_counter()
    predictor = Predictor.load()
    loaded = 1e3 * (time.perf_counter() - start)
    known = platforms.load()
    profile = read_profiles(PROFILES)[0]
    forecaster, workload = Forecaster(), workload_of(profile)
    reference = known[profile.platform]
    every = median_ms(lambda: predictor.predict_all(profile, known.values(), reference))
    curves = median_ms(lambda: forecaster.forecast(workload, known))
    text = forecaster.forecast(workload, known).to_json()
    parsed = median_ms(lambda: Forecast.from_json(text))
    verdict = "met" if every <= BAR_MS else "missed"
    print(f"load the bundle            {loaded:7.2f} ms")
    print(f"one profile, {len(known)} platforms  {every:7.2f} ms   bar {BAR_MS:.0f} ms: {verdict}")
    print(f"forecast with core curves  {curves:7.2f} ms")
    print(f"forecast from JSON         {parsed:7.2f} ms   {len(text)} bytes")


if __name__ == "__main__":
    main()
