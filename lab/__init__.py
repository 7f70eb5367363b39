"""The laboratory: what trains, compares and evaluates what Berth ships. Not in the wheel.

Imports the rooms, and no room imports it. ``python -m lab --help`` lists what runs.
"""
