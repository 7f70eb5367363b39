"""Carries MIG plans out: reads the GPUs by NVML, cuts what is free, rolls back what fails.

``nvml`` is the only module that touches the driver; ``transaction`` goes from the recorded layout
to the planned one or back, by way of ``journal``; ``apply`` is the way in, with the lock and
the checks, ``helper`` the same for unprivileged callers. Deciding what to cut is
``berth.policies.mig``.
"""
