"""What a model needs beside time: memory with an interval, and energy.

Serving: numpy only. ``footprint.footprint`` is the one call.
"""
