"""The time of a measured model run that a model of latency is fitted on."""

from __future__ import annotations

from berth.pilot.dl.document import Device, ModelRun, Outcome


def seconds(run: ModelRun) -> float | None:
    """What the run takes undisturbed: processor time on one core, else latency."""
    if run.outcome is not Outcome.OK or run.latency is None or run.processor_time is None:
        return None
    single = run.setting.device is Device.CPU and run.setting.threads == 1
    return run.processor_time.median_s if single else run.latency.median_s
