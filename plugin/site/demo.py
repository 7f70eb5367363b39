"""A made-up site over the shipped platforms: for `berth place` where there is no site file."""

from __future__ import annotations

from pathlib import Path

from berth.plugin.site.load import load_site
from berth.plugin.site.site import Site

DEMO_FILE = Path(__file__).with_name("demo.toml")


def demo_site() -> Site:
    """The demo site. Its prices are typical list prices, not anybody's offer."""
    return load_site(DEMO_FILE)
