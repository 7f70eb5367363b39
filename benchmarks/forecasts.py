"""One forecast of each kind of work on all shipped platforms, after load.

The workloads are those of the tests: small, so that this is Berth's own share of the time.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "support")]

from every_kind import workloads  # noqa: E402

from berth.predictor.core.forecast import Forecast  # noqa: E402
from berth.predictor.core.forecaster import Forecaster  # noqa: E402
from berth.predictor.hardware import platforms  # noqa: E402

RUNS = 5


def main() -> None:
    known, forecaster = platforms.load(), Forecaster()
    print(f"on {len(known)} platforms    median       best")
    for name, workload in workloads("quartz", "lassen-v100", "H100-80GB").items():
        forecast = forecaster.forecast(workload, known)
        found_ms = []
        for _ in range(RUNS):
            begun_s = time.perf_counter()
            forecaster.forecast(workload, known)
            found_ms.append(1e3 * (time.perf_counter() - begun_s))
        median_ms = statistics.median(found_ms)
        print(f"{name:<16}{median_ms:6.1f} ms  {min(found_ms):6.1f} ms", flush=True)
    text = forecast.to_json()
    begun_s = time.perf_counter()
    for _ in range(RUNS):
        Forecast.from_json(text)
    parsed_ms = 1e3 * (time.perf_counter() - begun_s) / RUNS
    print(f"a forecast from {len(text)} bytes of JSON: {parsed_ms:.2f} ms")


if __name__ == "__main__":
    main()
