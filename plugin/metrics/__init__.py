"""Prometheus metrics of a running Berth, by a process of its own (``berth site metrics``).

A process of its own, so that nothing that scrapes, or floods, its address costs the scheduler's
questions anything: it asks the daemon like ``berth serve --status`` and reads the store.
"""
