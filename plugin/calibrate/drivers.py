"""Drivers of GPUs as they are now, as far as this machine and the site's pilots have seen them."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping

from berth.pilot.errors import BerthError
from berth.pilot.host import gpu_driver
from berth.plugin.site.site import Site
from berth.plugin.store import Store


def drivers_seen(site: Site) -> dict[str, str]:
    """Host -> version: of this machine, else by the newest stored profile that ran on the host.

    No scheduler reports it. Empty where there is no store.
    """
    found: dict[str, str] = {}
    try:
        store = Store.open(site.daemon.store, create=False)
    except BerthError:
        records = []
    else:
        records = sorted(store.workloads(), key=lambda record: record.created_s)
        store.close()
    for record in records:
        if '"gpu_driver"' in record.document:
            machine = json.loads(record.document).get("machine") or {}
            if machine.get("gpu_driver"):
                found[machine["host"]] = machine["gpu_driver"]
    own = gpu_driver()
    return found | ({platform.node(): own} if own else {})


def other_driver(host: str, measured: str | None, seen: Mapping[str, str]) -> str | None:
    """The driver that runs now in place of the one that was measured under; None: the same."""
    now = seen.get(host)
    return now if measured and now and now != measured else None
