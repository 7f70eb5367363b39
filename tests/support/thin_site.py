"""A site file with one kind of nodes of four cores, ``thin``: what replays of traces are run on."""

from __future__ import annotations


def thin_site(partition: str, nodes: int, more: str) -> str:
    """``more``: another line of the candidate."""
    return f"""\
schema = "berth.site/1"
[site]
reference_platform = "quartz"
[[candidates]]
name = "thin"
platform = "quartz"
partition = "{partition}"
nodes = {nodes}
cores_per_node = 4
{more}
"""
