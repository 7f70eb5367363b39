"""Carries out MIG plans: reads the GPUs by NVML, repartitions free GPUs, rolls back on failure.

``nvml`` is the only module that calls the driver; ``transaction`` goes from the recorded layout to
the planned one or back, and records its steps in ``journal``; ``apply`` is the entry point, with
lock and checks, and ``helper`` is the entry point for unprivileged callers. What to change is
decided in ``berth.policies.mig``.
"""
