"""Pictures as addresses that an ``img`` takes: an SVG in an image runs no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from berth.pilot.errors import ToolMissing
from berth.plugin.pictures.times import Row, ranked_times


def picture(rows: Sequence[Row], *, took_s: float | None = None) -> str | None:
    """``data:`` address of the ranking drawn; None where nothing is ranked, or without matplotlib.

    ``took_s``: what really came.
    """
    if not rows:
        return None
    try:
        svg = ranked_times(rows, took_s=took_s)
    except ToolMissing:
        return None
    if "xmlns=" not in svg[:400]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
