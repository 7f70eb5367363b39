"""The instruments of a pilot: each kind of counter source behind one :class:`Collector`."""

from berth.pilot.collectors.base import Collector, Readings

__all__ = ["Collector", "Readings"]
