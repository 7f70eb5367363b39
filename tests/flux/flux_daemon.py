"""``berth serve`` for a test's Flux: its site file, its store, forecasts made by hand.

``stream`` runs ten times as fast on a GPU, ``serial`` is fastest on CPUs, ``small`` belongs on a
slice, and nothing is known of any other workload.
"""

from __future__ import annotations

import getpass
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from berth_daemon import RunningDaemon, forecast, start_daemon, wait_until
from made_forecasts import put

from berth.plugin.store import Store

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
FORECASTS = (
    forecast("stream", 600, 60, platforms=(CPU, GPU)),
    forecast("serial", 60, 600, platforms=(CPU, OLD, GPU, SLICE)),
    forecast("small", 600, 60, platforms=(CPU, SLICE)),
)


@dataclass
class FluxHarbour:
    """A site, its store and its daemon, for one instance."""

    folder: Path
    uri: str
    daemons: list[RunningDaemon] = field(default_factory=list)

    @property
    def site_file(self) -> Path:
        """The site file."""
        return self.folder / "berth.toml"

    @property
    def socket(self) -> Path:
        """Where the daemon listens."""
        return self.folder / "berth.sock"

    @property
    def kill_switch(self) -> Path:
        """Make this file to stop every placement."""
        return self.folder / "off"

    def write_site(
        self, *, mode: str = "enforce", daemon: str = "", refresh_s: float = 1.0
    ) -> None:
        """(Re)write the site file, at once for a reader."""
        text = SITE.format(
            mode=mode,
            folder=self.folder,
            user=getpass.getuser(),
            daemon=daemon,
            refresh_s=refresh_s,
        )
        fresh = self.site_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.site_file)

    def store(self) -> Store:
        """The store."""
        return Store.open(f"sqlite:///{self.folder}/store.db")

    def start(self, *, wait: bool = True) -> RunningDaemon:
        """A daemon; with ``wait``, once it knows the instance's state."""
        daemon = start_daemon(
            self.site_file, self.socket, environment={"FLUX_URI": self.uri}, wait=wait
        )
        self.daemons.append(daemon)
        if wait:
            wait_until(
                lambda: daemon.stats()["state_age_s"] is not None,
                what=f"the instance's state\n{daemon.log}",
            )
        return daemon

    def settings(self, **more: Any) -> dict[str, Any]:
        """Of the frobnicator."""
        return {"socket": str(self.socket), "kill_switch": str(self.kill_switch), **more}


@contextmanager
def flux_harbour(uri: str = "") -> Iterator[FluxHarbour]:
    """A FluxHarbour with a filled store; its daemons end with the block."""
    folder = Path(tempfile.mkdtemp(prefix="berth-"))
    folder.chmod(0o755)
    made = FluxHarbour(folder, uri)
    made.write_site()
    store = made.store()
    put(store, *FORECASTS)
    store.close()
    try:
        yield made
    finally:
        for daemon in made.daemons:
            daemon.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
