"""Where the instances go when only their numbers are asked for, as in a mig-parted file."""

from __future__ import annotations

from collections.abc import Mapping

from berth.pilot.errors import UsageError
from berth.policies.mig.layout import Layout
from berth.policies.mig.states import enumerate_states
from berth.predictor.hardware.mig.geometry import Geometry


def arrange(
    geometry: Geometry,
    counts: Mapping[str, int],
    *,
    current: Layout | None = None,
    busy: Layout | None = None,
) -> Layout:
    """The layout with exactly these numbers of instances that changes ``current`` least.

    ``busy`` instances stay where they are. Raises UsageError where the GPU has no such profile or
    the numbers do not go together, or not beside what is busy.
    """
    current, busy = current or Layout(), busy or Layout()
    wanted = {name: n for name, n in counts.items() if n}
    for name, n in wanted.items():
        if n < 0:
            raise UsageError(f"{n} instances of {name} make no sense")
        geometry.profile(name)
    text = ", ".join(f"{n} x {name}" for name, n in wanted.items()) or "no instance"
    narrow = geometry.restricted({*wanted, *(i.profile for i in busy.instances)})
    fitting = [x for x in enumerate_states(narrow).layouts if x.counts() == wanted]
    if not fitting:
        raise UsageError(f"{geometry.gpu} cannot hold {text} at the same time")
    beside = [x for x in fitting if x.contains(busy.instances)]
    if not beside:
        raise UsageError(f"{geometry.gpu} cannot hold {text} while {busy} stays")
    now = set(current.instances)
    return min(beside, key=lambda x: (len(now ^ set(x.instances)), x))
