"""The instruments of a pilot: each kind of counter source behind one :class:`Collector`.

``registry`` finds them by name; another package adds one by an entry point of ``berth.collectors``.
"""

from berth.pilot.collectors.base import Collector, Readings, Stage

__all__ = ["Collector", "Readings", "Stage"]
