"""Decides on jobs in a queue that their user chose: such a job stays there, and at most its
``--gres`` gets the type of a MIG slice.
"""

from __future__ import annotations

from berth.plugin.daemon import replies
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Kept, SiteView, Snapshot
from berth.plugin.site.candidates import is_padding
from berth.policies.codes import Code
from berth.policies.constraints import names_no_type
from berth.policies.values import CandidateState, Decision, Request

_TYPES_NAMED = 8


def in_own_queue(
    request: Request,
    queue: str,
    *,
    site: SiteView,
    shelf: Shelf,
    snapshot: Snapshot,
    now_s: float,
) -> Kept | Decision:
    """Return why the job is left unchanged, or the Decision that adds a slice's type to
    its gres.
    """
    if site.auto_queue is not None and site.auto_queue in queue.split(","):
        return Kept(
            Code.OWN_QUEUE,
            f"-p {queue} names partitions beside {site.auto_queue}: Berth chooses only for "
            f"-p {site.auto_queue} alone.",
        )
    names = site.slice_queues.get(queue)
    if not names or request.gres is None or not names_no_type(request.gres):
        return Kept(Code.OWN_QUEUE, f"You chose {queue} yourself.")
    name = request.workload
    forecast = None if name is None else shelf.forecast(name, request.user)
    if forecast is not None:
        decision = site.decider.decide(request, snapshot.states, forecast, now_s)
        if decision.chosen in names and replies.edits(request, decision).keys() == {"gres"}:
            return decision
    states = (snapshot.states.get(name) for name in names)
    return untyped_gpu(request.gres, queue, next((s for s in states if s is not None), None))


def untyped_gpu(gres: str, queue: str, state: CandidateState | None) -> Kept:
    """Return the message for a user whose ``--gres=gpu:1`` may get a MIG slice of any size."""
    types = () if state is None else tuple(t for t in state.gpu_types if ":" in t)
    named = [t for t in types if not is_padding(t)]
    may_get = "a slice of any size"
    if len(named) < len(types):
        may_get += ", or a part of a GPU that is switched off"
    hint = f": {', '.join(f'--gres={t}:1' for t in named[:_TYPES_NAMED])}" if named else ""
    return Kept(
        Code.UNTYPED_GPU,
        f"{gres} names no type; in {queue} it may get {may_get}. Name one{hint}.",
    )
