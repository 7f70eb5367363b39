"""``berth serve`` for a test's Flux: its site file, its store, forecasts made by hand.

``stream`` runs ten times as fast on a GPU, ``serial`` is fastest on CPUs, ``small`` belongs on a
slice, and nothing is known of any other workload.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from berth_daemon import RunningDaemon, SiteFolder, forecast
from made_forecasts import put

SITE = """\
schema = "berth.site/1"
mode = "{mode}"

[site]
name = "tests"
scheduler = "flux"
reference_platform = "rome-7742"
auto_queue = "auto"

[daemon]
socket = "berth.sock"
store = "sqlite:///{folder}/store.db"
kill_switch = "off"
scheduler_users = ["{user}"]
state_refresh_s = {refresh_s}
{daemon}

[coverage]
interactive = true

[[candidates]]
name = "cpu"
platform = "rome-7742"
queue = "cpu"
cores_per_node = 8
memory_per_node = "64G"
nodes = 2

[[candidates]]
name = "old"
platform = "quartz"
queue = "old"
cores_per_node = 8
memory_per_node = "64G"
nodes = 2

[[candidates]]
name = "gpu"
platform = "h200-141gb"
queue = "gpu"
gpus_per_node = 2
cores_per_node = 8
nodes = 1
max_time = "2h"
[candidates.translation]
gpus = 1
cpus_per_gpu = 2

[[candidates]]
name = "slice"
platform = "h100-mig-1g.10gb"
queue = "mig-1g.10gb"
gpus_per_node = 7
cores_per_node = 8
nodes = 1
[candidates.translation]
gpus = 1
"""
CPU, OLD = ("rome-7742", False), ("quartz", False)
GPU, SLICE = ("h200-141gb", True), ("h100-mig-1g.10gb", True)
_UNEVEN = forecast("uneven", 60, 600, platforms=(CPU, GPU))
FORECASTS = (
    forecast("stream", 600, 60, platforms=(CPU, GPU)),
    forecast("serial", 60, 600, platforms=(CPU, OLD, GPU, SLICE)),
    forecast("small", 600, 60, platforms=(CPU, SLICE)),
    replace(
        _UNEVEN,
        curves={**_UNEVEN.curves, **forecast("uneven", 120, platforms=(OLD,)).curves},
    ),
)
"""``uneven`` takes twice as long on the older of the two kinds of CPU nodes."""


@dataclass
class FluxHarbour(SiteFolder):
    """A site, its store and its daemon, for one instance."""

    uri: str = ""

    def write_site(
        self, *, mode: str = "enforce", daemon: str = "", refresh_s: float = 1.0
    ) -> Path:
        """(Re)write the site file, at once for a reader."""
        text = SITE.format(
            mode=mode,
            folder=self.folder,
            user=getpass.getuser(),
            daemon=daemon,
            refresh_s=refresh_s,
        )
        return self.write(text)

    def start(self, *, wait: bool = True) -> RunningDaemon:
        """A daemon; with ``wait``, once it knows the instance's state."""
        return self.start_daemon(state=wait, environment={"FLUX_URI": self.uri}, wait=wait)

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"socket": str(self.socket), "kill_switch": str(self.kill_switch), **more}


@contextmanager
def flux_harbour(uri: str = "") -> Iterator[FluxHarbour]:
    """A FluxHarbour with a filled store; its daemons end with the block."""
    with FluxHarbour.open() as opened:
        opened.uri = uri
        opened.write_site()
        store = opened.store()
        put(store, *FORECASTS)
        store.close()
        yield opened
