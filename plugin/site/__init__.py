"""The site file ``berth.toml``: how a site describes its places and what Berth may do.

``load_site`` gives the Site; ``SiteWatcher`` follows the file as it changes; ``demo_site`` is a
made-up site over shipped platforms, for trying things without a scheduler.
"""

from berth.plugin.site.load import Reload, SiteWatcher, demo_site, load_site
from berth.plugin.site.site import Coverage, DaemonSettings, Site

__all__ = [
    "Coverage",
    "DaemonSettings",
    "Reload",
    "Site",
    "SiteWatcher",
    "demo_site",
    "load_site",
]
