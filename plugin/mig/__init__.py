"""Applies MIG plans to this machine's GPUs: reads the GPUs through NVML, destroys and creates idle
GPU instances, and rolls back when a step fails.

``nvml`` is the only module that touches the driver; ``transaction`` goes from the recorded layout
to the planned one or back, by way of ``journal``; ``apply`` is the way in, with the lock and
the checks, ``helper`` the same for unprivileged callers. Deciding what to cut is
``berth.policies.mig``.
"""
