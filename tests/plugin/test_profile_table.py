"""The lines below a Profile's table of counters."""

from __future__ import annotations

from berth.pilot.host import provenance
from berth.pilot.profile import Invocation, Profile, Runtime, SizePoint
from berth.plugin.report.of_profile import profile_facts


def test_only_a_peak_that_is_a_bound_is_said_to_be_one() -> None:
    exact = SizePoint(size=200, runtime_s=2.0, peak_memory_bytes=64 * 2**20)
    bound = SizePoint(
        size=100, runtime_s=1.0, peak_memory_bytes=8 * 2**20, peak_memory_is_bound=True
    )
    profile = Profile(
        name="app",
        platform="node",
        workload=Invocation(command=("app",)),
        runtime=Runtime(median_s=1.0, spread_s=0.0, repeats_s=(1.0,)),
        peak_memory_bytes=8 * 2**20,
        peak_memory_is_bound=True,
        counters={},
        sizes=(bound, exact),
        provenance=provenance(),
    )
    facts = list(profile_facts(profile))
    assert ("memory", "at most 8.0 MiB of the host") in facts
    assert ("size", "100: 1 s, at most 8.0 MiB") in facts
    assert ("size", "200: 2 s, 64.0 MiB") in facts
