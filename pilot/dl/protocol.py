"""The measurement protocol: cool-down, warm-up, timed repeats, then a window for the energy.

Source: the thesis, section 4.4.1 (5 warm-up runs, 30 repeats) and algorithm 2 (cool-down between
configurations). Berth differs in two points. It stores every repeat. It measures energy over a
separate window of back-to-back runs, because meters update only every 20 to 100 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol as Interface

from berth.pilot.dl.document import Protocol
from berth.pilot.dl.meters import EnergyReading, Meter
from berth.pilot.profile import Measurement, Quality

LEAST_REPEATS = 3
DISTURBED = 1.05


class Subject(Interface):
    """A loaded model that can be run repeatedly."""

    def run(self) -> float:
        """Run the model once and return the seconds by the device's own clock."""

    def burst(self, count: int) -> None:
        """Run the model ``count`` times back to back and wait only for the last run."""

    def before_repeats(self) -> None:
        """Reset peak-memory counters after the warm-up."""


@dataclass(frozen=True, slots=True)
class Timings:
    """The times in seconds of all repeats, and the energy of ``energy_runs`` runs."""

    seconds: tuple[float, ...]
    processor_s: tuple[float, ...]
    energy: EnergyReading | None
    energy_runs: int


def follow(
    subject: Subject,
    protocol: Protocol,
    meter: Meter,
    sleep: Callable[[float], None] = time.sleep,
) -> Timings:
    """Run the measurement protocol on a model and return its times and energy.

    Exceptions of the model are not caught.
    """
    sleep(protocol.cool_down_s)
    for _ in range(protocol.warmup):
        subject.run()
    subject.before_repeats()
    seconds: list[float] = []
    processor: list[float] = []
    began = time.monotonic()
    while len(seconds) < protocol.repeats:
        if len(seconds) >= LEAST_REPEATS and time.monotonic() - began > protocol.repeats_s:
            break
        before = time.process_time()
        seconds.append(subject.run())
        processor.append(time.process_time() - before)
    if protocol.energy_s == 0:
        return Timings(tuple(seconds), tuple(processor), None, 0)
    sleep(protocol.cool_down_s)
    reading, runs = _energy(subject, protocol.energy_s, min(seconds), meter)
    return Timings(tuple(seconds), tuple(processor), reading, runs)


def _energy(
    subject: Subject, window_s: float, run_s: float, meter: Meter
) -> tuple[EnergyReading, int]:
    """Return the energy of a window of at least ``window_s`` seconds, and its number of runs.

    Runs are made in bursts of about a tenth of the window.
    """
    burst = max(1, int(window_s / 10 / max(run_s, 1e-6)))
    subject.burst(burst)
    runs = 0
    began = time.monotonic()
    meter.start()
    while not runs or time.monotonic() - began < window_s:
        subject.burst(burst)
        runs += burst
    return meter.stop(), runs


def energy_measurements(timings: Timings) -> dict[str, Measurement]:
    """Return the energy of one run (``energy_j``) and the mean power in the window (``power_w``).

    Missing values have a note with the reason.
    """
    reading = timings.energy
    if reading is None or reading.joules is None:
        why = "not asked for" if reading is None else reading.note
        source = "none" if reading is None else reading.source
        gone = Measurement(value=None, quality=Quality.MISSING, source=source, note=why)
        return {"energy_j": gone, "power_w": gone}
    window = f"{timings.energy_runs} runs in {reading.seconds:.3g} s"
    note = "; ".join(part for part in (reading.note, window) if part)
    return {
        "energy_j": Measurement(
            value=reading.joules / timings.energy_runs,
            quality=Quality.MEASURED, source=reading.source, note=note,
        ),
        "power_w": Measurement(
            value=reading.joules / reading.seconds,
            quality=Quality.MEASURED, source=reading.source, note=note,
        ),
    }  # fmt: skip
