"""The place: a private Flux of four brokers, and users who submit to each of them."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from flux_daemon import FORECASTS, SITE
from flux_instance import LiveFlux, frobnicators, live_flux
from made_forecasts import put
from warm_berth import FRESH

from berth.plugin.store import Store
from chaos.faults import remount
from chaos.history import Ended, Fault, Job, Recorder, Setting, Submission
from chaos.run import copy_bundle
from chaos.serving import Serving
from chaos.wire import Wire

FILTER = Path(__file__).with_name("observing_frobnicator.py")
USERS = Path(__file__).with_name("flux_users.py")
DISK_MIB = 256
SIZE = 4


class FluxPlace:
    """See ``chaos.run.Place``."""

    def __init__(
        self, folder: Path, flux: LiveFlux, setting: Setting, others: Sequence[Sequence[str]]
    ) -> None:
        self.folder, self._flux = folder, flux
        self.setting = setting
        self.calls = folder / "calls.jsonl"
        self.calls.touch()
        self.kill_switch = folder / "off"
        self.site_file = folder / "berth.toml"
        self.store = folder / "store" / "berth.db"
        self.store.parent.mkdir()
        self.has_disk = remount(self.store.parent, DISK_MIB)
        store = Store.open(f"sqlite:///{self.store}")
        put(store, *FORECASTS)
        store.close()
        self.bundle = copy_bundle(folder / "bundle")
        socket = folder / "berth.sock"
        self.wire = Wire(folder / "wire.sock", socket)
        text = SITE.format(
            mode="enforce", folder=self.store.parent, user=getpass.getuser(),
            daemon="outcomes_refresh_s = 30", refresh_s=5.0,
        ).replace("/store.db", "/berth.db")  # fmt: skip
        # Jobs end at once, whatever was predicted: learnt from, they would not be placed any more.
        text += '\n[learning]\nenabled = false\n\n[predictor]\nbundles = ["bundle"]\n'
        self.site_file.write_text(text)
        environment = {**os.environ, "FLUX_URI": flux.uri}
        self.serving = Serving(
            [FRESH, *others], self.site_file, socket, folder / "berth.log", environment
        )
        self.mishaps: list[Fault] = []
        self.controllers = (("controller restarted", self._workers_restarted),)
        self._users: subprocess.Popen[str] | None = None
        self._recorder: Recorder | None = None
        self._told = folder / "told.jsonl"

    def begin(self, recorder: Recorder, seed: int, rate: float) -> None:
        order = {"uris": self._flux.uris(), "out": str(self._told), "seed": seed, "rate": rate}
        self._recorder = recorder
        self._users = subprocess.Popen(
            ["flux", "python", str(USERS), "submit", json.dumps(order)],
            env=self._flux.environment, stdin=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self) -> None:
        users, self._users = self._users, None
        if users is None or self._recorder is None:
            return
        users.communicate(timeout=300)
        user = getpass.getuser()
        for line in self._told.read_text().splitlines():
            self._recorder.add(Submission(**{**json.loads(line), "user": user}))

    def jobs(self) -> list[Job]:
        text = self._flux.run("python", str(USERS), "jobs", timeout_s=600)
        return [Job(**job) for job in json.loads(text)]

    def ended(self) -> list[Ended]:
        return []

    @contextmanager
    def _workers_restarted(self, _: Random) -> Iterator[None]:
        """The ingest modules begin anew with their workers, as after a change of configuration."""
        self._flux.run("config", "reload")
        yield


@contextmanager
def flux_place(deadline_s: float, others: Sequence[Sequence[str]] = ()) -> Iterator[FluxPlace]:
    """A Flux of our own with the frobnicator and what observes it."""
    folder = Path(tempfile.mkdtemp(prefix="berth-"))
    folder.chmod(0o755)
    setting = Setting("flux", deadline_s, 3, 0.5, 2.0, filters=4 * SIZE)
    settings = {
        "socket": str(folder / "wire.sock"),
        "kill_switch": str(folder / "off"),
        "deadline_ms": 1000 * deadline_s,
        "breaker_failures": setting.breaker_failures,
        "breaker_first_pause_s": setting.first_pause_s,
        "breaker_longest_pause_s": setting.longest_pause_s,
    }
    place: FluxPlace | None = None
    try:
        with live_flux(frobnicators(str(FILTER), **settings), size=SIZE) as flux:
            place = FluxPlace(folder, flux, setting, others)
            try:
                yield place
            finally:
                with suppress(ValueError):  # the history is closed, where the run is ended early
                    place.finish()
                with suppress(Exception):
                    place.serving.end()
    finally:
        if place is not None and place.has_disk:
            subprocess.run(["umount", "-l", str(place.store.parent)], check=False)
        shutil.rmtree(folder, ignore_errors=True)
