"""The progress of a calibration: one JSON state file, and a result file for each node beside it.

Also the facts that show whether a calibration is outdated: present GPU driver versions, and the
bundles that calibration made.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from berth.pilot.documents import Document, read_json, write_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.host import gpu_driver
from berth.pilot.network.links import LinkMeasurement
from berth.pilot.node import NodeMeasurement
from berth.pilot.profile import Name
from berth.plugin.findings import Findings, warn
from berth.plugin.scheduler import Scheduler
from berth.plugin.scheduler.facts import NodeFacts
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.predictor.core.bundle import schema_of_bundle
from berth.predictor.families.program.bundle import BUNDLE_SCHEMA, DEFAULT_BUNDLE

BUNDLE_FOLDER = "bundles"
CALIBRATED = "calibrated-"
"""Prefix of the folders of bundles that calibration made."""
STATE_SCHEMA = "berth.calibration/1"
FOLDER = "calibration"
"""Default name of the folder, beside the site file."""
STATE_FILE = "calibration.json"
PAIR = ","
"""Separates the names of two nodes."""
LINKS = "links"
"""Folder of the results for links between two nodes."""


def drivers_seen(site: Site) -> dict[str, str]:
    """Return GPU driver versions by host: this machine's, and those in the newest stored profiles.

    No scheduler reports driver versions. Only this machine's is known where there is no store.
    """
    drivers: dict[str, str] = {}
    try:
        store = Store.reading(site.daemon.store)
    except BerthError:
        records = []
    else:
        records = sorted(store.workloads(), key=lambda record: record.created_s)
        store.close()
    for record in records:
        if '"gpu_driver"' in record.document:
            machine = json.loads(record.document).get("machine") or {}
            if machine.get("gpu_driver"):
                drivers[machine["host"]] = machine["gpu_driver"]
    own = gpu_driver()
    return drivers | ({platform.node(): own} if own else {})


def other_driver(host: str, measured: str | None, seen: Mapping[str, str]) -> str | None:
    """Return the host's present GPU driver version if it differs from the measured one; None: no
    difference is known."""
    now = seen.get(host)
    return now if measured and now and now != measured else None


def is_ours(folder: Path) -> bool:
    """Return whether a calibration made the bundle in this folder."""
    return folder.parent.name == BUNDLE_FOLDER and folder.name.startswith(CALIBRATED)


def program_bundle(bundles: Sequence[Path]) -> Path:
    """Return the bundle for programs among the site's own, else the shipped one."""
    for folder in bundles:
        try:
            if schema_of_bundle(folder) == BUNDLE_SCHEMA:
                return folder
        except UsageError:
            continue
    return DEFAULT_BUNDLE


class CalibrationStep(Document):
    """The measurement of one node or of a pair: its job, and what went wrong."""

    kind: Name
    node: str = Field(min_length=1, max_length=520)
    """The node's name; for a link, both nodes' names separated by a comma."""
    job: str | None = None
    """Identifier of the job; None: not submitted."""
    queue: str = ""
    problem: str | None = None
    """Why there is no result; None: there is one, or it is still expected."""


class CalibrationState(Document):
    """All steps of a site's calibration, by node type and node."""

    schema_: str = Field(default=STATE_SCHEMA, alias="schema")
    steps: tuple[CalibrationStep, ...] = Field(default=(), max_length=10_000)

    def step(self, kind: str, node: str) -> CalibrationStep | None:
        """Return the step of one node or pair; None: it has none."""
        return next((s for s in self.steps if (s.kind, s.node) == (kind, node)), None)

    def with_step(self, step: CalibrationStep) -> CalibrationState:
        """Return the state with ``step`` in place of the previous step of the same node."""
        others = [s for s in self.steps if (s.kind, s.node) != (step.kind, step.node)]
        return self.model_copy(update={"steps": (*others, step)})


class Folder:
    """The folder of a calibration; compute nodes must see it at the same path."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def read(self) -> CalibrationState:
        """Return the stored state; an empty one where there is no file. Raises DocumentError."""
        path = self.path / STATE_FILE
        return read_json(path, CalibrationState) if path.exists() else CalibrationState()

    def write(self, state: CalibrationState) -> None:
        """Write the state. Raises UsageError where the folder cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(self.path / STATE_FILE, state)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror}",
                hint="name a folder that you and the compute nodes can write: --results DIR",
            ) from None

    def file(self, kind: str, node: str, ending: str) -> Path:
        """Return the path of the script, log or result (by ``ending``) of one node or pair."""
        folder = self.path / kind / LINKS if PAIR in node else self.path / kind
        return folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', node)}.{ending}"

    def result(self, kind: str, node: str) -> NodeMeasurement | LinkMeasurement | None:
        """Return the measurement of a node or pair, complete or not; None: none can be read."""
        path = self.file(kind, node, "json")
        try:
            if not path.exists():
                return None
            if PAIR in node:
                return read_json(path, LinkMeasurement)
            return read_json(path, NodeMeasurement)
        except UsageError:
            return None

    def links(self, kind: str) -> list[LinkMeasurement]:
        """Return the complete link measurements of a node type, newest first."""
        links = []
        for path in (self.path / kind / LINKS).glob("*.json"):
            try:
                links.append(read_json(path, LinkMeasurement))
            except UsageError:
                continue
        whole = [link for link in links if link.complete and link.interconnect is not None]
        return sorted(whole, key=lambda link: link.measured, reverse=True)

    def results(self, kind: str) -> list[NodeMeasurement]:
        """Return the complete measurements of a node type's nodes."""
        files = sorted((self.path / kind).glob("*.json"))
        results = []
        for path in files:
            try:
                results.append(read_json(path, NodeMeasurement))
            except UsageError:
                continue
        return [result for result in results if result.complete]


def check_calibration(site: Site, scheduler: Callable[[], Scheduler]) -> Findings:
    """Check that nodes still have the kernel and driver of their measurement (``site doctor``).

    ``scheduler`` is called only where there is a calibration to check.
    """
    folder = Folder(Path(site.source).absolute().parent / FOLDER)
    if not (folder.path / STATE_FILE).exists():
        return
    nodes = {node.name: node for node in scheduler().read().nodes}
    again = f"berth site calibrate --site {site.source}"
    drivers = drivers_seen(site)
    for kind in dict.fromkeys(step.kind for step in folder.read().steps):
        for result in folder.results(kind):
            node = nodes.get(result.node)
            old = None if node is None else outdated(result, node, drivers)
            if old is not None:
                yield warn("calibration", old, again)


def outdated(
    result: NodeMeasurement | LinkMeasurement,
    node: NodeFacts,
    drivers: Mapping[str, str] = MappingProxyType({}),
) -> str | None:
    """Return why a measurement does not match the node's present state; None: it matches.

    ``drivers``: GPU driver versions by host, as last seen.
    """
    if node.system is not None and result.kernel and node.system != result.kernel:
        return f"{node.name} was measured under {result.kernel} and runs {node.system} now"
    if isinstance(result, NodeMeasurement):
        now = other_driver(result.host, result.driver, drivers)
        if now is not None:
            return f"{node.name} was measured with GPU driver {result.driver} and has {now} now"
    return None
