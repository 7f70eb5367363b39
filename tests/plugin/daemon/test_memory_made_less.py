"""Memory beyond what the jobs of a workload needed: named, and made less where its user asks."""

from __future__ import annotations

import time
from dataclasses import replace

from views import decide, knowing_service, site_of

from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.daemon.service import Service
from berth.plugin.history.matching import workload_key
from berth.plugin.store.records import MemoryNeedRecord


def needing(service: Service, workload: str = "stream") -> Service:
    """Fourteen of alice's jobs of that workload needed 3 GiB, and somebody gives memory back."""
    key = workload_key("alice", workload)
    need = MemoryNeedRecord(key, "alice", 3 * 2**30, 14, 0, 4 * 2**30, 50.0)
    service.shelf.memory_needs[key] = need
    guard = Guard(time.time(), requeue=True)
    service.snapshot = replace(service.snapshot, guard=guard)
    return service


LARGE = {"memory_mib_per_node": 64 * 1024, "script": "#!/bin/sh\n./stream\n"}
FIT = {"comment": "berth:stream berth-memory:fit"}


def test_memory_beyond_the_need_is_named_and_made_less_where_the_user_wants_that() -> None:
    service = needing(knowing_service()[0])
    told = decide(service, **LARGE)
    assert "needed at most 3.0 GiB in 14 runs" in told["message"]
    assert "memory_mib_per_node" not in told["edits"]
    less = decide(service, **LARGE, **FIT)
    assert (less["code"], less["edits"]["queue"]) == ("placed", "gpu")
    assert less["edits"]["memory_mib_per_node"] == 4 * 1024
    assert "fit=" in less["stamp"]
    assert "fit=" not in told["stamp"]


def test_memory_alone_is_made_less_in_a_queue_of_the_users_own() -> None:
    service = needing(knowing_service()[0])
    less = decide(service, **LARGE, **FIT, queue="cpu")
    assert (less["action"], less["code"]) == ("edit", "memory-fit")
    assert less["edits"] == {"memory_mib_per_node": 4 * 1024}


def test_memory_is_not_made_less_in_shadow_or_advise() -> None:
    advised = decide(needing(knowing_service(site=site_of("advise"))[0]), **LARGE, **FIT)
    assert (advised["action"], "edits" in advised) == ("keep", False)
    assert "needed at most" in advised["message"]
    shadowed = decide(needing(knowing_service(site=site_of("shadow"))[0]), **LARGE, **FIT)
    assert "message" not in shadowed


def test_memory_that_is_shared_out_anew_over_more_nodes_is_not_made_less() -> None:
    service = needing(knowing_service()[0])
    reply = decide(service, **LARGE, **FIT, tasks=100, nodes=1)
    assert reply["edits"] == {"queue": "cpu", "nodes": 2}
    assert "It is left so: it is shared out anew where the job goes." in reply["message"]
    assert "fit=" not in reply["stamp"]
