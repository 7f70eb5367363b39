"""``berth serve`` for a test's cluster: its site file, its store, forecasts written by hand.

The forecasts are made up, so that each test knows where each workload belongs: ``stream`` runs ten
times as fast on the GPU, ``serial`` is fastest on CPUs, ``brief`` three times as fast on the GPU,
``wide`` is uncertain by a factor 100.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from empty_stores import open_store
from made_forecasts import curve, program, put
from slurm_cluster import Cluster, wait_until
from warm_berth import FRESH, Forked, can_fork

from berth.pilot.errors import BerthError
from berth.plugin.daemon.client import ask
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval

GIB = 2.0**30
SITE = """\
schema = "berth.site/1"
mode = "{mode}"

[site]
name = "test"
reference_platform = "quartz"
reference_partition = "cpu"
auto_partition = "auto"

[daemon]
socket = "{root}/run/berth.sock"
store = "sqlite:///{root}/store/berth.db"
kill_switch = "{root}/run/off"
ruled_out = "{root}/run/ruled-out.json"
scheduler_users = ["root"]
state_refresh_s = 2
outcomes_refresh_s = 1

[fit]
mode = "off"

[coverage]
interactive = {interactive}
het = {het}

[[candidates]]
name = "cpu"
platform = "quartz"
partition = "cpu"
nodes = 2
cores_per_node = 32
memory_per_node = "120G"
max_time = "2d"
default_time = "1h"
"""
_GPU_CANDIDATE = """
[[candidates]]
name = "NAME"
platform = "PLATFORM"
partition = "NAME"
gres = "gpu:h200"
nodes = 1
cores_per_node = 64
memory_per_node = "500G"
gpus_per_node = 4
instruction_sets = []
architecture = "x86_64"
targets = ["cpu", "cuda"]
max_time = "1d"
default_time = "1h"
translation = {{ gpus = 1, cpus_per_gpu = 4 }}
"""
SITE += "".join(
    _GPU_CANDIDATE.replace("NAME", name).replace("PLATFORM", platform)
    for name, platform in (("gpu", "lassen-v100"), ("reserved", "h200-141gb"))
)


_GPUS = ("lassen-v100", "h200-141gb")
_LITTLE = Interval(GIB, GIB, 2 * GIB)


def forecast(
    name: str,
    runtimes_s: Mapping[str, Interval],
    abstained: str | None = None,
    *,
    memory: Interval = _LITTLE,
) -> Forecast:
    """A forecast with one time for each platform, whatever the resources."""
    reference_s = runtimes_s["quartz"].mid
    curves = {
        platform: curve(
            name, platform, dict.fromkeys((1, 2, 4), runtime), gpu=platform in _GPUS,
            memory=memory, reference_s=reference_s, abstained=abstained,
        )
        for platform, runtime in runtimes_s.items()
    }  # fmt: skip
    return program(name, curves, reference="quartz", reference_s=reference_s, peak_bytes=GIB)


def sure(seconds: float) -> Interval:
    return Interval(0.9 * seconds, seconds, 1.1 * seconds)


FORECASTS = (
    forecast("stream", {"quartz": sure(100), "lassen-v100": sure(10)}),
    forecast("serial", {"quartz": sure(10), "lassen-v100": sure(100)}),
    forecast("hopper", {"quartz": sure(100), "lassen-v100": sure(10), "h200-141gb": sure(1)}),
    forecast("brief", {"quartz": sure(6), "lassen-v100": sure(2)}),
    forecast("wide", {"quartz": Interval(10, 100, 1000), "lassen-v100": Interval(1, 10, 100)}),
    forecast(
        "strange",
        {"quartz": sure(100), "lassen-v100": sure(10)},
        "its counters are outside the range that the predictor was trained on",
    ),
)


_FILLING = threading.Lock()


def fill(file: Path, forecasts: Sequence[Forecast] = FORECASTS) -> None:
    file.unlink(missing_ok=True)
    with _FILLING:  # Alembic is not made for threads
        store = open_store(f"sqlite:///{file}")
        put(store, *forecasts)
        store.close()


class RealDaemon:
    """A running ``berth serve``."""

    def __init__(self, cluster: Cluster, forecasts: Sequence[Forecast] = FORECASTS) -> None:
        self.cluster = cluster
        self.forecasts = forecasts
        self.socket = cluster.berth_socket
        self.site_file = cluster.etc / "berth.toml"
        self.store_file = cluster.root / "store" / "berth.db"
        self.pid = 0
        self._running: Forked | None = None
        self.amend: Callable[[str], str] = str
        """What a test changes in the site file's text."""

    def write_site(
        self, mode: str = "enforce", *, interactive: bool = True, het: bool = True
    ) -> None:
        """Write the site file; a running daemon notices."""
        text = SITE.format(
            mode=mode,
            root=self.cluster.root,
            interactive=str(interactive).lower(),
            het=str(het).lower(),
        )
        self.site_file.write_text(self.amend(text))

    def start(self) -> None:
        """Start it and wait until it answers and knows the partitions' state."""
        self.launch()
        wait_until(
            self.is_ready, "berth serve is ready", 60, note=lambda: self.cluster.log("berth")
        )

    def launch(self) -> None:
        words = ("serve", "--site", str(self.site_file))
        if can_fork():
            log = self.cluster.root / "log" / "berth.log"
            env, cwd = self.cluster.environment, self.cluster.root
            self._running = Forked(words, env=env, cwd=cwd, stdout=log, stderr=log)
            self.pid = self.cluster.pids["berth"] = self._running.pid
        else:
            self.pid = self.cluster.launch("berth", *FRESH, *words)

    def is_ready(self) -> bool:
        """True once it has forecasts and a reading of the cluster."""
        found = self.ask({"v": 1, "op": "stats"})
        return (
            found is not None
            and found.get("forecasts") == len(self.forecasts)
            and found.get("state_age_s") is not None
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """One request of our own; None where nobody answers."""
        with suppress(BerthError):
            return ask(self.socket, request, timeout_s=2)
        return None


def by_time_alone(site_file: str) -> str:
    """The site file's text with a policy that does not count predicted waiting."""
    return site_file.replace("[daemon]", "[policy.weights]\nwait = 0\n\n[daemon]", 1)


def telling_all(site_file: str) -> str:
    """The site file's text with a line for each job, moved or not."""
    return f'{site_file}\n[messages]\nshow = "all"\n'


@contextmanager
def real_daemon(
    cluster: Cluster,
    mode: str = "enforce",
    *,
    amend: Callable[[str], str] = str,
    forecasts: Sequence[Forecast] = FORECASTS,
    **site: bool,
) -> Iterator[RealDaemon]:
    """A daemon with a filled store, ended at the end. ``amend`` changes the site file's text."""
    daemon = RealDaemon(cluster, forecasts)
    daemon.amend = amend
    daemon.store_file.parent.mkdir(exist_ok=True)
    daemon.write_site(mode, **site)
    fill(daemon.store_file, forecasts)
    try:
        daemon.start()
        yield daemon
    finally:
        cluster.end("berth")
        shutil.rmtree(daemon.store_file.parent, ignore_errors=True)
