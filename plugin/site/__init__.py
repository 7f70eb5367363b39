"""The site file ``berth.toml``: describes a site's partitions and what Berth may do.

``load_site`` returns the Site; ``SiteWatcher`` reads the file again when it changes; ``demo_site``
is an invented site of shipped platforms, for trying Berth without a scheduler.
"""

from berth.plugin.site.load import Reload, SiteWatcher, demo_site, load_site
from berth.plugin.site.site import Site

__all__ = [
    "Reload",
    "Site",
    "SiteWatcher",
    "demo_site",
    "load_site",
]
