"""Berth's own valgrind tool, which counts everything that a pilot needs in one emulated run."""
