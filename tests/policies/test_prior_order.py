"""The order in which a site's kinds of nodes are offered to unknown programs."""

from __future__ import annotations

import pytest
from policy_builders import cpu

from berth.pilot.platform import Platform
from berth.plugin.site.prior_order import with_prior_order
from berth.predictor.hardware import platforms

GENOA = platforms.shipped()["epyc-genoa-vm"]
PLACES = (cpu("first", platform="first"), cpu("second", platform="second"))


def kind(name: str, times_as_long: float | None) -> Platform:
    """Return a node of one processor model; ``times_as_long``: None where no kernel ran."""
    times_s = {
        kernel: seconds * (times_as_long or 1.0)
        for kernel, seconds in GENOA.signature.kernel_times_s.items()
        if times_as_long is not None
    }
    signature = GENOA.signature.model_copy(update={"kernel_times_s": times_s, "core_score": None})
    return GENOA.model_copy(
        update={"name": name, "signature": signature, "processor": "AMD EPYC 7763"}
    )


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [
        (1.0, 1.7, ["first", "second"]),
        (1.7, 1.0, ["second", "first"]),  # one model, but its nodes are throttled
        (1.7, None, ["first", "second"]),  # nothing compares them but the name: as in the file
    ],
)
def test_nodes_that_ran_the_benchmark_kernels_are_ordered_by_their_own_times(
    first: float, second: float | None, order: list[str]
) -> None:
    known = {"first": kind("first", first), "second": kind("second", second)}
    found = sorted(with_prior_order(PLACES, known), key=lambda place: place.speed_rank)
    assert [place.name for place in found] == order
